"""Ratios of two policies at tokens: weights and masks, which are constants of the gradient, and distances.

A ratio is e to the power of at most `FAR` either way: further out it has no gradient, so no loss
of a finite log-prob overflows. What is not a number goes through, for the guard of the step to find.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

FAR = 20.0  # log of a ratio beyond which it is taken as this far; e to it is 4.9e8


def log_ratios(logprobs: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    return (logprobs - others).clamp(-FAR, FAR)


def sampled_at(old: torch.Tensor, sampler: torch.Tensor, on_policy: torch.Tensor) -> torch.Tensor:
    """Log-probs by the weights that sampled, in the trainer's own rounding where it has them."""
    return old.where(on_policy, sampler)


def truncated(logprobs: torch.Tensor, sampled: torch.Tensor, cap: float) -> torch.Tensor:
    """min(pi / sampler, cap)"""
    return log_ratios(logprobs, sampled).clamp(max=math.log(cap)).exp()


def token_mask(log_ratios: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """True where low <= ratio <= high. What is not a number is kept: it has to be found, not dropped."""
    return ~((log_ratios < _log(low)) | (log_ratios > _log(high)))


def sequence_mask(log_ratios: torch.Tensor, rows: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """The same for the geometric mean over each row's tokens; `rows` says how many each has."""
    row = (rows.new_ones(len(rows)).cumsum(0) - 1).repeat_interleave(rows)
    sums = log_ratios.double().new_zeros(len(rows)).index_add_(0, row, log_ratios.double())
    return token_mask(sums / rows.clamp(min=1), low, high)[row]


def _log(bound: float) -> float:
    return math.log(bound) if bound > 0 else -math.inf


def kl_estimates(logprobs: torch.Tensor, reference: torch.Tensor, estimator: str) -> torch.Tensor:
    """Of KL(pi | reference) at tokens sampled by pi. All three have its mean (k2 nearly so), but
    as losses not its gradient: that of k2 is the KL's, that of k3 is KL(reference | pi)'s, and
    that of k1 is 0 on average (docs/concepts/learner.md). k3 is at most that of a ratio of e^FAR."""
    if estimator == "k3":
        gap = log_ratios(logprobs, reference)
        return (-gap).expm1() + gap
    gap = logprobs - reference
    return gap if estimator == "k1" else gap.square() / 2
