"""HGPO: turns are compared with those that share their state, and with those that share their latest states too
(arXiv 2602.22817).

    A[t]    = sum over k = 0 .. history of  w_k A_k[t] / sum of the w_k          w_k = (k + 1)^sharpness
    A_k[t]  = (G[t] - mean of its group) / F                    group: turns of the task with equal s[t - k] .. s[t]
    G[t]    = r[t] + gamma * G[t + 1]

F is the group's deviation (n) + 1e-6, or 1 with group_std off. The sums are over the levels that say something: where
a turn is not alone in its group, and the group's returns are not all equal; without any A is 0. The nearer two turns
are in what was before them, the more they weigh. `episode_weight` adds the game's own comparison, as in gigpo: the
paper has none. It ran gamma 0.95, history 2 or 4 and sharpness 1.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from learners.credit.groups import Anchored, compared, episode_returns, step_groups, without_rounding
from learners.credit.steps import rewards_to_go
from learners.credit.turns import Credit, Turns


class Hgpo(Anchored):
    history: int = Field(2, ge=0, description="earlier states that the narrowest groups share")
    sharpness: float = Field(1.0, ge=0, description="alpha: a level with k earlier states weighs (k + 1)^alpha")
    episode_weight: float = Field(0.0, ge=0, description="weight of the episode advantage")

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        returns = rewards_to_go(turns, self.gamma)
        total, weights = np.zeros(len(returns)), np.zeros(len(returns))
        for level, group in enumerate(history_groups(turns, self.history)):
            weight = (level + 1.0) ** self.sharpness * differs(returns, group)
            total += weight * compared(returns, group, self.group_std, population=True)
            weights += weight
        advantages = np.divide(total, weights, out=np.zeros_like(total), where=weights > 0)
        if self.episode_weight:
            game = compared(episode_returns(turns, 1.0), turns.group, self.group_std, population=True)
            advantages += self.episode_weight * game[turns.trajectory]
        return Credit(np.repeat(advantages, turns.tokens).astype(np.float32), dict(state))


def history_groups(turns: Turns, history: int) -> list[np.ndarray]:
    """int64 [turns] for each number of shared earlier states; a turn that has fewer before it is alone."""
    state, found = step_groups(turns), []
    group = state
    for back in range(history + 1):
        if back:
            alone = np.arange(len(state)) + len(state) + group.max(initial=0) + 1
            earlier = np.roll(state, back)
            _, group = np.unique(group * (state.max(initial=0) + 1) + earlier, return_inverse=True)
            group = np.where(turns.index >= back, group, alone)
        found.append(group)
    return found


def differs(scores: np.ndarray, group: np.ndarray) -> np.ndarray:
    """bool: whether the scores of each one's group are not all equal, but for rounding."""
    _, group = np.unique(group, return_inverse=True)
    low, high = np.full(group.max(initial=-1) + 1, np.inf), np.full(group.max(initial=-1) + 1, -np.inf)
    np.minimum.at(low, group, scores)
    np.maximum.at(high, group, scores)
    return (without_rounding(high - low, scores) > 0)[group]
