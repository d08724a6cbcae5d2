"""A choice among the actions that a game lists (TWOSOME: Tan et al., ICLR 2024).

    score(a) = sum of the log-probs of a's tokens / (length of a * temperature)
    P(a)     = exp(score(a)) / sum over the listed b of exp(score(b))

An action's tokens are those of a whole utterance that says it, with the end of the turn. Its
length is its words, as published, or its tokens, or 1: then, at temperature 1, P is what the
policy would say, given that it says one of the listed actions. The engine gives the log-probs;
everything that the learner needs to compute P again is in the Choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.episode import Choice


def lengths(actions: Sequence[str], tokens: np.ndarray, counted: str) -> np.ndarray:
    """float64 [actions]. `counted`: "words", "tokens" or "none"."""
    if counted == "words":
        return np.array([max(len(action.split()), 1) for action in actions], np.float64)
    return tokens.astype(np.float64) if counted == "tokens" else np.ones(len(tokens))


def drawn(
    actions: Sequence[str],
    ids: Sequence[Sequence[int]],
    logprobs: Sequence[np.ndarray],
    counted: str,
    temperature: float,
    draw: float,
) -> tuple[Choice, float]:
    """The choice that a uniform number `draw` in [0, 1) makes, and its log-prob. `ids` and
    `logprobs` are those of each action's tokens, the latter at temperature 1."""
    tokens = np.array([len(each) for each in ids], np.int32)
    divisors = lengths(actions, tokens, counted) * temperature
    scores = np.array([each.astype(np.float64).sum() for each in logprobs]) / divisors
    logp = scores - scores.max()
    logp -= np.log(np.exp(logp).sum())
    mass = np.exp(logp).cumsum()
    chosen = min(int(np.searchsorted(mass, draw * mass[-1], side="right")), len(mass) - 1)
    return Choice(np.concatenate(ids).astype(np.int32), tokens, divisors, chosen), float(logp[chosen])
