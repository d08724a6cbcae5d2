"""TWOSOME: the policy is a softmax over the actions a game lists (Tan et al., ICLR 2024).

    score(a) = sum of the log-probs of a's tokens / number of words of a
    log P(a) = score(a) - log sum over the listed b of exp(score(b))

P is one categorical decision a turn, with turn-level GAE for its advantage. It is the sampled
distribution (actors/choice.py) and the trained one (learners/batch/decisions.py), so whoever chooses
the action and whoever computes the loss have to score every listed action, chosen or not:

    d log P(chosen) / d log-prob of a token of a = ((a is chosen) - P(a)) / words of a

Arrays over the listed actions hold turn after turn, action after action, token after token.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from learners.credit.critics import TokenCriticSettings
from learners.credit.gae import turn_credit
from learners.credit.method import CreditMethod
from learners.credit.ragged import segment_log_softmax, segment_sums
from learners.credit.turns import Credit, Turns


def listed_logprobs(logprobs: np.ndarray, tokens: np.ndarray, words: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """float64 [actions]: log P of every listed action.

    logprobs: [tokens of all actions], at temperature 1
    tokens: int64 [actions], how many tokens each has; words: int64 [actions]
    listed: int64 [turns], how many actions each turn lists
    """
    for name, counts in (("tokens", tokens), ("words", words), ("listed actions", listed)):
        if len(counts) and np.min(counts) < 1:
            raise ValueError(f"twosome: entry {int(np.argmin(counts))} has no {name}")
    scores = segment_sums(np.asarray(logprobs, np.float64), tokens) / words
    return segment_log_softmax(scores, listed)


def chosen_logprobs(every: np.ndarray, listed: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """float64 [turns]: log P of the action that was taken, the `chosen`-th of its turn from 0."""
    return every[_place(listed, chosen)]


def gradient_weights(
    every: np.ndarray, tokens: np.ndarray, words: np.ndarray, listed: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """float64 [tokens of all actions]: the derivative of each turn's log P(chosen) by each
    token's log-prob. Times the turn's advantage, it is what that token is trained with."""
    taken = np.zeros(len(every))
    taken[_place(listed, chosen)] = 1.0
    return np.repeat((taken - np.exp(every)) / words, tokens)


class Twosome(CreditMethod):
    needs = ("values", "bootstrap")

    lambda_a: float = Field(0.95, ge=0, le=1, description="GAE's lambda between turns")
    critic: TokenCriticSettings = Field(default_factory=TokenCriticSettings)

    def check(self, episodes: int, group_size: int, choose_listed: bool) -> None:
        if not choose_listed:
            raise ValueError(
                "trains a choice among listed actions, which rollout.choose_listed=true makes; "
                "learner.credit.method=gae is the same credit for free text"
            )

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        return turn_credit(turns, self.gamma, self.lambda_a, state)


def _place(listed: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    outside = np.flatnonzero((chosen < 0) | (chosen >= listed))
    if len(outside):
        turn = int(outside[0])
        raise ValueError(f"twosome: turn {turn} chose action {chosen[turn]} of the {listed[turn]} that were listed")
    return np.cumsum(listed) - listed + chosen
