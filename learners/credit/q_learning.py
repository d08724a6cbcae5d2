"""BAD for Q-learning: an utterance is chosen token by token, and only turns take time.

    j < n    Q(o_t, w_<j, w_j)  <-  max over w of Q(o_t, w_<=j, w)
    j = n    Q(o_t, w_<n, w_n)  <-  r[t] + gamma * max over w of Q(o_{t+1}, nothing, w)

A token's target is the best next token's value, so the greedy token policy speaks the best
utterance of the game whose actions are whole utterances. `turns.values` holds the maxima: the
largest Q at each trained token's own position; `turns.bootstrap` the largest at the observation
after a cut-off. For double Q-learning they are the slow network's values of the tokens that the
present one likes best; for the soft form, `soft.soft_values` in place of the maximum.
"""

from __future__ import annotations

import numpy as np

from learners.credit.steps import token_steps
from learners.credit.turns import Turns


def token_targets(turns: Turns, gamma: float) -> np.ndarray:
    """float64 [trained tokens]: what Q should say of each sampled token."""
    return token_steps(turns, gamma, gamma_w=1.0, lambda_a=0.0, lambda_w=0.0).backups()
