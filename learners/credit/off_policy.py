"""Tokens of older weights: weights and masks, all constants of the gradient.

Every function takes log pi - log mu of the trained tokens, pi the weights being updated and mu
those that sampled, and returns float64 [trained tokens]. Rows are turns, or whole trajectories:
how many trained tokens each has, in batch order. Bounds are ratios, 1 inside them. No ratio is
taken for more than e^FAR, so none overflows.
"""

from __future__ import annotations

import math

import numpy as np

from learners.credit.ragged import segment_sums

FAR = 20.0  # that of learners/loss/policy.py


def truncated_weights(log_ratios: np.ndarray, cap: float) -> np.ndarray:
    """min(pi / mu, cap): biased towards mu by what is cut off, variance bounded by cap."""
    return np.exp(np.minimum(log_ratios, min(math.log(cap), FAR)))


def row_weights(log_ratios: np.ndarray, rows: np.ndarray, cap: float) -> np.ndarray:
    """min(product of the row's ratios, cap) on each of its tokens: the row as one action."""
    return np.repeat(truncated_weights(segment_sums(log_ratios, rows), cap), rows)


def token_mask(log_ratios: np.ndarray, low: float, high: float) -> np.ndarray:
    """1 where low <= pi / mu <= high, else 0: a token the two disagree on teaches nothing."""
    _check_bounds(low, high)
    return _inside(log_ratios, low, high)


def row_mask(log_ratios: np.ndarray, rows: np.ndarray, low: float, high: float) -> np.ndarray:
    """1 on the rows whose geometric mean of pi / mu lies within the bounds, else 0. The mean
    does not grow with length, so one bound serves short and long rows."""
    _check_bounds(low, high)
    means = segment_sums(log_ratios, rows) / np.maximum(rows, 1)
    return np.repeat(_inside(means, low, high), rows)


def decoupled(
    logprobs: np.ndarray, proximal: np.ndarray, sampler_logprobs: np.ndarray, cap: float
) -> tuple[np.ndarray, np.ndarray]:
    """Decoupled PPO (Hilton et al. 2022): clip around a recent policy, whoever sampled.

    (pi / proximal, which is clipped; min(proximal / mu, cap), which weighs the clipped objective)

    `proximal` is the log-prob by the weights at the start of the update, so that the clip limits
    how far this update goes, not how old the data is. proximal = sampler_logprobs is ordinary PPO.
    """
    return np.exp(np.clip(logprobs - proximal, -FAR, FAR)), truncated_weights(proximal - sampler_logprobs, cap)


def _inside(log_ratios: np.ndarray, low: float, high: float) -> np.ndarray:
    lowest = math.log(low) if low > 0 else -math.inf
    return ((log_ratios >= lowest) & (log_ratios <= math.log(high))).astype(np.float64)


def _check_bounds(low: float, high: float) -> None:
    if not 0 <= low <= 1 <= high:
        raise ValueError(f"a mask's bounds have to lie around 1, not at {low:g} and {high:g}")
