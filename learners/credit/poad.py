"""POAD: GAE over tokens whose backups decompose an action (Wen et al., NeurIPS 2024).

Bellman backup with action decomposition (BAD): time passes between turns, not between the
words of one utterance. With n trained tokens in turn t,

    j < n    delta = V[t, j+1] - V[t, j]                     g = delta + lambda_w * g
    j = n    delta = r[t] + gamma * V[t+1, 1] - V[t, n]      g = delta + gamma * lambda_a * g
    A[t, j] = g                                              value target = g + V[t, j]

backward over tokens and turns, g carried across both. The fixed point is the optimum of the
game whose actions are whole utterances, whatever their lengths.

lambda_w is 1 unless set: the first token's advantage then is exactly the turn-level one, and
the others split it up. lambda_w = 0.95 reproduces the authors' code; it shortens the reach of
an outcome with every word (0.95^128 = 0.0014) and so brings a length bias back.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from learners.credit.method import ActorCritic
from learners.credit.steps import Steps, token_steps
from learners.credit.turns import Credit, Turns


class Poad(ActorCritic):
    lambda_w: float = Field(
        1.0, ge=0, le=1, description="GAE's lambda between the tokens of an utterance; the method's authors ran 0.95"
    )

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        steps = token_steps(turns, self.gamma, 1.0, self.lambda_a, self.lambda_w)
        return token_credit(turns, steps, state)


def token_credit(turns: Turns, steps: Steps, state: dict[str, float]) -> Credit:
    advantages = steps.advantages()
    return Credit(
        advantages=advantages.astype(np.float32),
        state=dict(state),
        targets=(advantages + steps.values).astype(np.float32),
    )
