"""REINFORCE on turns: reward-to-go minus a baseline (Williams 1992; leave-one-out: Kool et al. 2019).

    G[t] = r[t] + gamma * G[t + 1]          advantage of every token of turn t = G[t] - b

Discounting is between turns: all tokens of an utterance are one action and share its
advantage. The method has no value estimate, so an episode cut off by the horizon counts
what it was paid until then. Only the running baseline survives an update; it is read
before this batch is added to it, so a batch never lowers its own advantages with it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from learners.credit.method import SoftCreditMethod
from learners.credit.steps import rewards_to_go
from learners.credit.turns import Credit, Turns


def leave_one_out(returns: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """Mean return over the turns of all other episodes. Seats of one game are one
    episode: their results depend on each other."""
    _, group = np.unique(episode, return_inverse=True)
    total, count = np.bincount(group, returns), np.bincount(group)
    if len(total) < 2:
        raise ValueError("the leave_one_out baseline needs at least two episodes in a batch")
    return ((returns.sum() - total) / (len(returns) - count))[group]


class Reinforce(SoftCreditMethod):
    baseline: Literal["none", "batch", "turn", "leave_one_out", "running"] = Field(
        "turn",
        description="what is subtracted from the return: nothing, the batch mean, the mean at the same turn index, the "
        "mean of the other episodes, or a running mean over updates",
    )
    running_decay: float = Field(0.9, ge=0, lt=1, description="memory of the running baseline")

    @model_validator(mode="after")
    def decay_is_read(self) -> Reinforce:
        if self.baseline != "running" and self.running_decay != type(self).model_fields["running_decay"].default:
            raise ValueError(f"baseline={self.baseline} does not read running_decay={self.running_decay}")
        return self

    @property
    def remembers(self) -> str:
        return "credit.baseline to turn" if self.baseline == "running" else ""

    def check(self, episodes: int, group_size: int, choose_listed: bool) -> None:
        if self.baseline == "leave_one_out" and episodes < 2:
            raise ValueError("with baseline=leave_one_out needs batch_episodes of at least 2")

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        returns = rewards_to_go(turns, self.gamma)
        state = dict(state)
        if len(returns) == 0:
            return Credit(np.zeros(0, np.float32), state)
        if self.baseline == "none":
            baseline = np.zeros_like(returns)
        elif self.baseline == "batch":
            baseline = np.full_like(returns, returns.mean())
        elif self.baseline == "turn":
            index = turns.index
            baseline = (np.bincount(index, returns) / np.bincount(index))[index]
        elif self.baseline == "leave_one_out":
            baseline = leave_one_out(returns, turns.episode[turns.trajectory])
        else:  # running; the first batch has no history and is its own
            before = state.get("running_return", returns.mean())
            baseline = np.full_like(returns, before)
            state["running_return"] = self.running_decay * before + (1 - self.running_decay) * returns.mean()
        advantages = np.repeat(returns - baseline, turns.tokens).astype(np.float32)
        return Credit(advantages, state)
