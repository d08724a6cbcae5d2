"""TWOSOME's categorical over listed actions, and the targets of ArCHer's critics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.credit.archer import action_value_targets, followed
from learners.credit.method import CREDIT
from tests.support.listed_actions import chosen_logprobs, gradient_weights, listed_logprobs


def listed(seed: int):
    rng = np.random.default_rng(seed)
    choices = rng.integers(1, 5, 3)
    tokens = rng.integers(1, 5, choices.sum())
    words = rng.integers(1, 4, choices.sum())
    return rng.normal(-2, 1, tokens.sum()), tokens, words, choices, rng.integers(0, choices)


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_listed_actions_are_a_softmax_of_word_normalised_scores(seed):
    logprobs, tokens, words, choices, chosen = listed(seed)
    scores = [part.sum() / n for part, n in zip(np.split(logprobs, np.cumsum(tokens)[:-1]), words, strict=True)]
    every = listed_logprobs(logprobs, tokens, words, choices)
    start, expected, taken = 0, [], []
    for count, choice in zip(choices, chosen, strict=True):
        turn = np.exp(scores[start : start + count])
        expected += np.log(turn / turn.sum()).tolist()
        taken.append(expected[start + choice])
        start += count
    assert every == pytest.approx(np.array(expected), abs=1e-12)
    assert chosen_logprobs(every, choices, chosen) == pytest.approx(taken, abs=1e-12)


def test_the_gradient_of_a_choice_by_finite_differences():
    logprobs, tokens, words, choices, chosen = listed(4)

    def total(x: np.ndarray) -> float:
        return chosen_logprobs(listed_logprobs(x, tokens, words, choices), choices, chosen).sum()

    weights = gradient_weights(listed_logprobs(logprobs, tokens, words, choices), tokens, words, choices, chosen)
    step = 1e-6
    for k in range(len(logprobs)):
        moved = np.eye(len(logprobs))[k] * step
        slope = (total(logprobs + moved) - total(logprobs - moved)) / (2 * step)
        assert weights[k] == pytest.approx(slope, abs=1e-8)


# ArCHer's critics


def test_targets_of_the_twin_critics():
    rewards, ended = np.array([1.0, 0.0, 2.0]), np.array([False, False, True])
    twins = np.array([[1.0, 2.0, 9.0], [3.0, 4.0, np.nan]])
    found = action_value_targets(rewards, twins, ended, gamma=0.95)
    assert found == pytest.approx(np.array([[1.95, 1.9, 2.0], [3.85, 3.8, 2.0]]))
    assert followed(np.array([1.0, -2.0]), np.array([2.0, 0.0]), CREDIT.make("archer").critic.tau) == pytest.approx(
        [1.1, -1.8]
    )
