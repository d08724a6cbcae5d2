"""Turn-level GAE: an utterance is one action (Schulman et al. 2016).

    delta[t] = r[t] + gamma * V[t + 1, 1] - V[t, 1]
    A[t]     = delta[t] + gamma * lambda_a * A[t + 1]      the advantage of every token of turn t

V[t, 1] is the value at the turn's first token, the only one that is read, and the only one
that gets a target, A[t] + V[t, 1]. After the last turn stands the bootstrap value of a
trajectory that was cut off, and 0 after a true end.
"""

from __future__ import annotations

import numpy as np

from learners.credit.method import ActorCritic
from learners.credit.steps import turn_steps
from learners.credit.turns import Credit, Turns


class Gae(ActorCritic):
    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        return turn_credit(turns, self.gamma, self.lambda_a, state)


def turn_credit(turns: Turns, gamma: float, lambda_a: float, state: dict[str, float]) -> Credit:
    steps = turn_steps(turns, gamma, lambda_a)
    advantages = steps.advantages()
    valued = np.zeros(len(turns.values), bool)
    valued[steps.first] = True
    return Credit(
        advantages=np.repeat(advantages, steps.tokens).astype(np.float32),
        state=dict(state),
        targets=np.repeat(advantages + steps.values, steps.tokens).astype(np.float32),
        valued=valued,
    )
