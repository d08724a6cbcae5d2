"""ArCHer: critics of whole utterances, learned off-policy; tokens learn from them (Zhou et al. 2024).

    A[t] = min(Q1, Q2)(o_t, utterance) - min(V1, V2)(o_t)        every token of turn t

Each twin has its own chain of targets, from slow copies of both networks, over transitions of
any age:

    Q_i(o, a)  <-  r + gamma * V_i'(o')       nothing after a true end
    V_i(o)     <-  Q_i'(o, a')                a' sampled anew by the present policy
    X'         <-  X' + tau * (X - X')        after every critic step

`learners/critic/turns.py` has the critics, and says whose utterance a' is.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from learners.credit.critics import UtteranceCriticSettings
from learners.credit.method import CreditMethod
from learners.credit.steps import rewards_to_go
from learners.credit.turns import Credit, Turns


class Archer(CreditMethod):
    needs = ("turn_values", "action_values")

    critic: UtteranceCriticSettings = Field(default_factory=UtteranceCriticSettings)

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        advantages = np.repeat(turns.action_values - turns.turn_values, turns.tokens).astype(np.float32)
        return Credit(advantages, rewards_to_go(turns, self.gamma), dict(state))


def action_value_targets(rewards: np.ndarray, following: np.ndarray, ended: np.ndarray, gamma: float) -> np.ndarray:
    """float64 [..., transitions]: what Q should say. `following` is V' of the next observation,
    for one twin or for both along the first axis; `ended`: bool, a true end."""
    return rewards + gamma * np.where(ended, 0.0, following)


def followed(slow: np.ndarray, present: np.ndarray, tau: float) -> np.ndarray:
    """The slow copy's weights after a step of the present ones'."""
    return slow + tau * (present - slow)
