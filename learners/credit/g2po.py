"""G2PO: the games of a task as one graph of states; a turn is as good as the state that it leads to
(arXiv 2606.22995).

    A[t]   = A_episode + step_weight * (A_node[t] + A_edge[t])
    V(s)   = mean of gamma^(T - t) R over all turns t = 0 .. T - 1 of the task's games in state s;  V(end) = R
    A_node = (V(next) - mean over the turns in the same state) / F         0 for a turn that is alone in its state
    A_edge = (V(next) - V(s) - mean over all turns of the task) / F

R is the plain sum of a game's rewards, T its turns, F the deviation of what is compared + 1e-6, or 1 with group_std
off. A_episode compares games as grpo does. So a turn gets credit where games that met the same state went on to
better ones. The authors' code takes V(end) = 10 where R is exactly 10, and subtracts 0.1 from V(next) of a turn that
the game could not execute; here what a game pays for such a turn is part of R. It ran gamma 0.95.
"""

from __future__ import annotations

import numpy as np

from learners.credit.groups import Anchored, Stepped, compared, episode_returns, step_groups
from learners.credit.turns import Turns


class G2po(Anchored, Stepped):
    def steps(self, turns: Turns) -> np.ndarray:
        trajectory, games = turns.trajectory, episode_returns(turns, 1.0)
        here = step_groups(turns)
        values = state_values(turns, here, games, self.gamma)
        last = turns.index == np.diff(turns.offsets)[trajectory] - 1
        following = np.where(last, games[trajectory], np.roll(values, -1))
        node = compared(following, here, self.group_std)
        edge = compared(following - values, turns.group[trajectory], self.group_std)
        return node + edge


def state_values(turns: Turns, states: np.ndarray, games: np.ndarray, gamma: float) -> np.ndarray:
    """float64 [turns]: V of the state of each."""
    _, states = np.unique(states, return_inverse=True)
    left = np.diff(turns.offsets)[turns.trajectory] - turns.index
    reached = gamma**left * games[turns.trajectory]
    return (np.bincount(states, reached) / np.bincount(states))[states]
