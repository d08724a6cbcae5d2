"""TWOSOME's distribution over listed actions in plain numpy: what play and learner are held against.

Arrays hold turn after turn, action after action, token after token.
"""

from __future__ import annotations

import numpy as np

from learners.credit.ragged import segment_sums


def listed_logprobs(logprobs: np.ndarray, tokens: np.ndarray, words: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """float64 [actions]: log P of every listed action.

    logprobs: [tokens of all actions], at temperature 1
    tokens: int64 [actions], how many tokens each has; words: int64 [actions]
    listed: int64 [turns], how many actions each turn lists
    """
    scores = segment_sums(np.asarray(logprobs, np.float64), tokens) / words
    return segment_log_softmax(scores, listed)


def chosen_logprobs(every: np.ndarray, listed: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """float64 [turns]: log P of the action that was taken, the `chosen`-th of its turn from 0."""
    return every[np.cumsum(listed) - listed + chosen]


def gradient_weights(
    every: np.ndarray, tokens: np.ndarray, words: np.ndarray, listed: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """float64 [tokens of all actions]: the derivative of each turn's log P(chosen) by each
    token's log-prob. Times the turn's advantage, it is what that token is trained with."""
    taken = np.zeros(len(every))
    taken[np.cumsum(listed) - listed + chosen] = 1.0
    return np.repeat((taken - np.exp(every)) / words, tokens)


def segment_log_softmax(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """float64, as long as x: log-softmax within each row. No row is empty."""
    if len(x) == 0:
        return np.zeros(0)
    highest = np.maximum.reduceat(x, np.cumsum(lengths) - lengths)
    shifted = x - np.repeat(highest, lengths)
    return shifted - np.repeat(np.log(segment_sums(np.exp(shifted), lengths)), lengths)
