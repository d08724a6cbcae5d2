"""Comparing what belongs together: scores within groups.

A group's deviation is the sample one (n - 1), as in the common implementations of GRPO; the
small number added to it keeps a group whose members are all alike at 0.
"""

from __future__ import annotations

import numpy as np

from learners.credit import Turns
from learners.credit.steps import rewards_to_go

SMALL = 1e-6


def episode_returns(turns: Turns, gamma: float) -> np.ndarray:
    """float64 [trajectories]: the discounted return of each whole game."""
    played = np.diff(turns.offsets) > 0
    returns = np.zeros(len(played))
    returns[played] = rewards_to_go(turns, gamma)[turns.offsets[:-1][played]]
    return returns


def compared(scores: np.ndarray, group: np.ndarray, divide: bool) -> np.ndarray:
    """float64: each score minus its group's mean, divided by its deviation if asked; 0 for
    what has nobody to be compared with."""
    _, group = np.unique(group, return_inverse=True)
    count = np.bincount(group)
    gap = scores - (np.bincount(group, scores) / count)[group]
    if divide:
        deviation = np.sqrt(np.bincount(group, gap**2) / np.maximum(count - 1, 1))
        gap /= deviation[group] + SMALL
    return gap


def left_out_means(scores: np.ndarray, group: np.ndarray) -> np.ndarray:
    """float64: the mean score of the others in the group, none of which is alone."""
    _, group = np.unique(group, return_inverse=True)
    total, count = np.bincount(group, scores), np.bincount(group)
    return (total[group] - scores) / (count[group] - 1)


def refuse_the_lonely(turns: Turns, method: str) -> None:
    _, group, count = np.unique(turns.group, return_inverse=True, return_counts=True)
    lonely = np.flatnonzero(count[group] == 1)
    if len(lonely):
        raise ValueError(
            f"credit method {method!r} compares games of one task, but episode {turns.episode[lonely[0]]} is alone "
            "in its group"
        )


def per_token(turns: Turns, of_trajectories: np.ndarray) -> np.ndarray:
    """float32 [trained tokens]: every token of a trajectory gets its number."""
    return np.repeat(of_trajectories[turns.trajectory], turns.tokens).astype(np.float32)
