"""GiGPO: groups of games, and inside them groups of turns in the same state (Feng et al. 2025).

    A[i, t]        = A_episode[i] + step_weight * A_step[i, t]
    A_episode[i]   = (R[i] - mean over the games of the task) / F           R: plain sum of rewards
    A_step[i, t]   = (G[i, t] - mean over the turns of the task with the same anchor) / F
    G[i, t]        = r[i, t] + gamma * G[i, t + 1]

F is the deviation of what is compared + 1e-6, or 1 with group_std off. A turn in a state that no
other turn of the task was in has A_step = 0, a game alone in its group A_episode = 0. Anchors are
exact observations, or the intentions voiced so far, which free dialogue repeats where it never
repeats a text. The paper ran gamma 0.95 and step_weight 1.
"""

from __future__ import annotations

import numpy as np

from learners.credit.groups import Anchored, Stepped, compared, step_groups
from learners.credit.steps import rewards_to_go
from learners.credit.turns import Turns


class Gigpo(Anchored, Stepped):
    def steps(self, turns: Turns) -> np.ndarray:
        return compared(rewards_to_go(turns, self.gamma), step_groups(turns), self.group_std)
