"""Comparing what belongs together: scores within groups.

A group's deviation is the sample one (n - 1), as in the common implementations of GRPO; the
small number added to it keeps a group whose members are all alike at 0. What is alone in its
group, because the others were dropped or never spoke, gets 0 and is counted: it says nothing
about what would have been better.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from learners.credit.method import SoftCreditMethod
from learners.credit.steps import rewards_to_go
from learners.credit.turns import Credit, Turns

SMALL = 1e-6
ROUNDED = 1e-12  # of the largest score: gaps no larger are what sums of equal scores differ by


class Grouped(SoftCreditMethod):
    """A method that compares games of one task."""

    needs = ("group",)

    group_std: bool = Field(True, description="divide by the group's standard deviation")


class Stepped(Grouped):
    """A[t] = A_episode + step_weight * A_step[t]: games are compared as grpo does, turns in each method's own way."""

    step_weight: float = Field(1.0, ge=0, description="weight of the step advantage")

    @abstractmethod
    def steps(self, turns: Turns) -> np.ndarray:
        """float64 [turns]"""

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        game = compared(episode_returns(turns, 1.0), turns.group, self.group_std)
        advantages = game[turns.trajectory] + self.step_weight * self.steps(turns)
        return Credit(np.repeat(advantages, turns.tokens).astype(np.float32), dict(state))


class Anchored(Grouped):
    """A method that compares turns in the same state, in games of one task."""

    needs = ("group", "anchor")

    anchor: Literal["observation", "labels", "states"] = Field(
        "observation",
        description="turns are in the same state if they were shown the same, if the same intentions were voiced "
        "before them, or if the policy's hidden states are near each other",
    )
    state_distance: float = Field(
        0.1, gt=0, lt=1, description="anchor=states: largest cosine distance of a turn from the mean of its state"
    )

    @model_validator(mode="after")
    def distance_is_read(self) -> Anchored:
        if self.anchor != "states" and self.state_distance != type(self).model_fields["state_distance"].default:
            raise ValueError(f"anchor={self.anchor} does not read state_distance={self.state_distance}")
        return self

    @property
    def readings(self) -> tuple[str, ...]:
        asked = super().readings
        return tuple("states" if name == "anchor" else name for name in asked) if self.by_states else asked


def episode_returns(turns: Turns, gamma: float) -> np.ndarray:
    """float64 [trajectories]: the discounted return of each whole game."""
    played = np.diff(turns.offsets) > 0
    returns = np.zeros(len(played))
    returns[played] = rewards_to_go(turns, gamma)[turns.offsets[:-1][played]]
    return returns


def compared(scores: np.ndarray, group: np.ndarray, divide: bool, population: bool = False) -> np.ndarray:
    """float64: each score minus its group's mean, divided by its deviation if asked (`population`: with n, not
    n - 1); 0 for what has nobody to be compared with."""
    _, group = np.unique(group, return_inverse=True)
    count = np.bincount(group)
    gap = without_rounding(scores - (np.bincount(group, scores) / count)[group], scores)
    if divide:
        deviation = np.sqrt(np.bincount(group, gap**2) / np.maximum(count - (not population), 1))
        gap /= deviation[group] + SMALL
    return gap


def above_the_others(scores: np.ndarray, group: np.ndarray) -> np.ndarray:
    """float64: each score minus the mean of the others in its group; 0 where there are none."""
    _, group = np.unique(group, return_inverse=True)
    total, others = np.bincount(group, scores)[group] - scores, np.bincount(group)[group] - 1
    return np.where(others > 0, without_rounding(scores - total / np.maximum(others, 1), scores), 0.0)


def without_rounding(gap: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Equal scores leave a gap of exactly 0, so whoever has no better and no worse one moves nothing."""
    return np.where(np.abs(gap) <= ROUNDED * np.abs(scores).max(initial=0.0), 0.0, gap)


def per_token(turns: Turns, of_trajectories: np.ndarray) -> np.ndarray:
    """float32 [trained tokens]: every token of a trajectory gets its number."""
    return np.repeat(of_trajectories[turns.trajectory], turns.tokens).astype(np.float32)


def step_groups(turns: Turns) -> np.ndarray:
    """int64 [turns]: equal where both the task and the anchor are."""
    _, task = np.unique(turns.group, return_inverse=True)
    anchors, anchor = np.unique(turns.anchor, return_inverse=True)
    return task[turns.trajectory] * len(anchors) + anchor
