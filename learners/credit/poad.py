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

from learners.credit import Credit, Turns
from learners.credit.steps import rewards_to_go, token_steps
from learners.settings import CreditSettings


def poad(turns: Turns, settings: CreditSettings, state: dict[str, float]) -> Credit:
    lambda_w = 1.0 if settings.lambda_w is None else settings.lambda_w
    steps = token_steps(turns, settings.gamma, 1.0, settings.lambda_a, lambda_w)
    advantages = steps.advantages()
    return Credit(
        advantages=advantages.astype(np.float32),
        returns=rewards_to_go(turns, settings.gamma),
        state=dict(state),
        targets=(advantages + steps.values).astype(np.float32),
    )
