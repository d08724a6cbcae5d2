"""The soft form: reward minus beta times the distance from a reference policy.

    action level   V(o) = max over policies of E[ r - beta * KL(pi | reference) + gamma_a * V(o') ]
    token level    every token pays beta * (log pi - log reference), beside the turn's reward

An utterance's log-prob is the sum of its tokens', so with gamma_w = 1 the tokens of a turn pay
exactly what the utterance as one action pays, and in expectation the KL terms of the tokens
add up to the KL of the utterance; a gamma_w below 1 would count late tokens for less. A
uniform reference makes it entropy regularisation: KL = log(choices) - entropy.

The optimum has a closed form at each token,

    V(o, w_<j) = beta * log sum over w of reference(w) * exp(Q(o, w_<j, w) / beta)
    log pi(w)  = log reference(w) + (Q(o, w_<j, w) - V(o, w_<j)) / beta

(Haarnoja et al. 2017; with action decomposition: Wen et al. 2024). There a token's pay makes up for its
advantage, whoever sampled it: every temporal difference of `poad` is 0 on average.
"""

from __future__ import annotations

import numpy as np


def token_penalties(logprobs: np.ndarray, reference: np.ndarray, beta: float) -> np.ndarray:
    """float64 [tokens]: what each sampled token is paid."""
    return -beta * (np.asarray(logprobs, np.float64) - np.asarray(reference, np.float64))
