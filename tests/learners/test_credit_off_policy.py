"""Weights and masks for tokens of older weights: exact values and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.credit.off_policy import decoupled, row_mask, row_weights, token_mask, truncated_weights

RATIOS = np.array([0.5, 1.0, 2.0, 8.0, 1.0])
LOGS = np.log(RATIOS)


def test_truncated_weights_stop_at_the_cap():
    assert truncated_weights(LOGS, 2.0) == pytest.approx([0.5, 1.0, 2.0, 2.0, 1.0])
    assert truncated_weights(np.array([5000.0]), 2.0) == pytest.approx([2.0]), "without overflow"
    # a row is one action: .5 * 1 * 2 = 1, nothing, 8 * 1
    assert row_weights(LOGS, np.array([3, 0, 2]), 4.0) == pytest.approx([1.0, 1.0, 1.0, 4.0, 4.0])


def test_token_masks_leave_out_what_the_two_disagree_on():
    assert token_mask(LOGS, 0.5, 2.0).tolist() == [1, 1, 1, 0, 1], "bounds are inside"
    assert token_mask(LOGS, 0.6, 8.0).tolist() == [0, 1, 1, 1, 1]
    assert token_mask(np.array([-1e9]), 0.0, 2.0).tolist() == [1], "0 is no lower bound"


def test_row_masks_go_by_the_geometric_mean():
    # (.5 * 1 * 2)^(1/3) = 1, (8 * 1)^(1/2) = 2.83
    assert row_mask(LOGS, np.array([3, 2]), 0.9, 2.8).tolist() == [1, 1, 1, 0, 0]
    assert row_mask(LOGS, np.array([3, 2]), 0.9, 2.9).tolist() == [1, 1, 1, 1, 1]
    assert row_mask(LOGS, np.array([3, 0, 2]), 0.9, 2.8).tolist() == [1, 1, 1, 0, 0], "an empty row is passed over"


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 10**6))
def test_row_masks_are_the_plain_loop_and_do_not_depend_on_length(rows, seed):
    rng = np.random.default_rng(seed)
    logs = rng.normal(0, 0.3, sum(rows))
    place, expected = 0, []
    for count in rows:
        row = logs[place : place + count]
        place += count
        inside = count and 0.9 <= math.exp(sum(row) / count) <= 1.1
        expected += [float(inside)] * count
    assert row_mask(logs, np.array(rows), 0.9, 1.1).tolist() == expected
    twice = np.concatenate([np.tile(row, 2) for row in np.split(logs, np.cumsum(rows)[:-1])])
    doubled = row_mask(twice, 2 * np.array(rows), 0.9, 1.1)
    assert doubled.sum() == 2 * sum(expected), "a row said twice over is as far off as said once"


@pytest.mark.parametrize(("low", "high"), [(1.1, 2.0), (0.5, 0.9), (-1.0, 2.0)])
def test_bounds_that_leave_out_agreement_are_refused(low, high):
    for mask in (lambda: token_mask(LOGS, low, high), lambda: row_mask(LOGS, np.array([5]), low, high)):
        with pytest.raises(ValueError, match="bounds have to lie around 1"):
            mask()


def test_decoupled_ppo_clips_around_the_proximal_policy():
    now, proximal, sampler_logprobs = np.log([0.4, 0.2]), np.log([0.2, 0.2]), np.log([0.1, 0.02])
    ratio, weight = decoupled(now, proximal, sampler_logprobs, cap=5.0)
    assert ratio == pytest.approx([2.0, 1.0]) and weight == pytest.approx([2.0, 5.0])
    assert ratio * weight == pytest.approx([4.0, 5.0]), "together pi / mu, but for the cap"
    ratio, weight = decoupled(now, sampler_logprobs, sampler_logprobs, cap=5.0)
    assert ratio == pytest.approx([4.0, 10.0]) and weight.tolist() == [1.0, 1.0], "ordinary PPO"
