"""Losses, as sums that do not know how the batch was cut up.

    loss = scale * sum over trained tokens of  policy term + kl * KL term - entropy * H

`scale` is 1 / (number of tokens, turns or episodes in the WHOLE minibatch, over all ranks
and micro-batches), so the gradient is the same for every micro-batch size, packing and
number of ranks. With `episode` it is the policy gradient of the expected return.

Three log-probs of a token are told apart: `logprobs` by the weights being trained, the only
one with a gradient; `old` by the weights at the start of the update; `sampler` by the weights
that sampled it, as the engine computed it. A token is `on_policy` if the last two are the same
weights. Engine and trainer round differently, and an on-policy update must not depend on that:
on such tokens `old` stands for `sampler`, so at the first step every ratio of theirs is exactly 1.
With `loss.correct_fresh` it does not: on-policy tokens are then corrected like all others.

    policy_gradient   - w A log pi                               w = min(pi / sampler, cap)
    ppo               - min(r A, clip(r, 1 - low, 1 + high) A)   r = pi / sampler
    decoupled         - w min(r A, clip(r, 1 - low, 1 + high) A) r = pi / old, w = min(old / sampler, cap)

w is a constant of the gradient (truncated importance sampling, Espeholt et al. 2018;
decoupled: Hilton et al. 2022). What a mask drops is 0 in value and gradient, whatever its
numbers are; `scale` does not change with it.

A ratio is e to the power of at most `FAR` either way: further out it has no gradient, so no loss
of a finite log-prob overflows. What is not a number goes through, for the guard of the step to find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from learners.batch.trajectories import Trajectory
from learners.settings import LearnerSettings

FAR = 20.0  # log of a ratio beyond which it is taken as this far; e to it is 4.9e8


def batch_scale(trajectories: Sequence[Trajectory], aggregation: str) -> float:
    """1 / how many tokens, turns or episodes (seats' games) these trajectories train."""
    if aggregation == "token":
        count = sum(int(trajectory.turn_tokens.sum()) for trajectory in trajectories)
    elif aggregation == "turn":
        count = sum(int((trajectory.turn_tokens > 0).sum()) for trajectory in trajectories)
    else:
        count = len(trajectories)
    return 1.0 / max(count, 1)


# what is read off logits


def target_logprobs(logits: torch.Tensor, targets: torch.Tensor, temperature: float) -> torch.Tensor:
    """Log-probs of the tempered distribution, the one that was sampled from; in float32 at least."""
    return -F.cross_entropy(_tempered(logits, temperature), targets, reduction="none")


def entropies(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Of the whole tempered distribution at each place."""
    logprobs = _tempered(logits, temperature).log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def _tempered(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperature == 1 else logits / temperature


# weights of old tokens: constants of the gradient


def log_ratios(logprobs: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    return (logprobs - others).clamp(-FAR, FAR)


def sampled_at(old: torch.Tensor, sampler: torch.Tensor, on_policy: torch.Tensor) -> torch.Tensor:
    """Log-probs by the weights that sampled, in the trainer's own rounding where it has them."""
    return torch.where(on_policy, old, sampler)


def importance_weights(
    logprobs: torch.Tensor,
    sampler: torch.Tensor,
    on_policy: torch.Tensor,
    cap: float,
    old: torch.Tensor | None = None,
) -> torch.Tensor:
    """min(pi / sampler, cap). Without `old` the log-probs are those of the start of the update."""
    logprobs = logprobs.detach()
    return truncated(logprobs, sampled_at(logprobs if old is None else old, sampler, on_policy), cap)


def truncated(logprobs: torch.Tensor, sampled: torch.Tensor, cap: float) -> torch.Tensor:
    return log_ratios(logprobs, sampled).clamp(max=math.log(cap)).exp()


def token_mask(log_ratios: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """True where low <= ratio <= high. What is not a number is kept: it has to be found, not dropped."""
    return ~((log_ratios < _log(low)) | (log_ratios > _log(high)))


def sequence_mask(log_ratios: torch.Tensor, rows: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """The same for the geometric mean over each row's tokens; `rows` says how many each has."""
    row = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), rows)
    sums = torch.zeros(len(rows), dtype=torch.float64, device=rows.device).index_add_(0, row, log_ratios.double())
    return token_mask(sums / rows.clamp(min=1), low, high)[row]


def _log(bound: float) -> float:
    return math.log(bound) if bound > 0 else -math.inf


# policy terms


def policy_loss(logprobs: torch.Tensor, advantages: torch.Tensor, weights: torch.Tensor, scale: float) -> torch.Tensor:
    return -scale * (weights * advantages * logprobs).sum()


def ppo_loss(
    logprobs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    scale: float,
    low: float,
    high: float,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """With `dual_clip` c a token of negative advantage costs at most c times that (Ye et al. 2020)."""
    ratios = log_ratios(logprobs, old).exp()
    gains = torch.minimum(ratios * advantages, ratios.clamp(1 - low, 1 + high) * advantages)
    if dual_clip is not None:
        gains = torch.where(advantages < 0, torch.maximum(gains, dual_clip * advantages), gains)
    return -scale * (weights * gains).sum()


def clipped(
    logprobs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    low: float,
    high: float,
    dual_clip: float | None = None,
) -> torch.Tensor:
    """True on the tokens that ppo_loss gives no gradient because of a clip."""
    ratios = log_ratios(logprobs.detach(), old).exp()
    held = ((advantages > 0) & (ratios > 1 + high)) | ((advantages < 0) & (ratios < 1 - low))
    return held if dual_clip is None else held | ((advantages < 0) & (ratios > dual_clip))


# distances


def kl_estimates(logprobs: torch.Tensor, reference: torch.Tensor, estimator: str) -> torch.Tensor:
    """Of KL(pi | reference) at tokens sampled by pi. All three have its mean (k2 nearly so), but
    as losses not its gradient: that of k2 is the KL's, that of k3 is KL(reference | pi)'s, and
    that of k1 is 0 on average (docs/concepts/learner.md). k3 is at most that of a ratio of e^FAR."""
    if estimator == "k3":
        gap = log_ratios(logprobs, reference)
        return torch.expm1(-gap) + gap
    gap = logprobs - reference
    return gap if estimator == "k1" else gap.square() / 2


# all of it


@dataclass(slots=True)
class Tokens:
    """The trained tokens of one micro-batch, in its order: constants of the gradient."""

    advantages: torch.Tensor
    sampler_logprobs: torch.Tensor
    on_policy: torch.Tensor  # bool: sampled by the very weights that the update starts from
    trained_lengths: torch.Tensor  # int64 [sequences]: how many of the tokens each sequence has
    old_logprobs: torch.Tensor | None  # None: the weights being trained are still those of the start
    reference: torch.Tensor | None


@dataclass(slots=True)
class PackLoss:
    """The loss of a micro-batch, and of its tokens what is measured."""

    loss: torch.Tensor
    logprobs: torch.Tensor
    old_logprobs: torch.Tensor
    clipped: torch.Tensor  # bool
    entropy: torch.Tensor | None


def token_losses(
    logprobs: torch.Tensor,
    entropy: torch.Tensor | None,
    tokens: Tokens,
    settings: LearnerSettings,
    scale: float,
) -> PackLoss:
    """The configured loss of one micro-batch; `entropy` only where it has a coefficient."""
    chosen = settings.loss
    old = logprobs.detach() if tokens.old_logprobs is None else tokens.old_logprobs
    kept = kept_tokens(old, tokens, settings)
    found = torch.where(kept, logprobs, 0.0)  # so nothing of what is dropped reaches a gradient
    own = torch.where(kept, old, 0.0)
    sampled = torch.where(kept, sampled_by(old, tokens, settings), 0.0)
    advantages, weights = torch.where(kept, tokens.advantages, 0.0), kept.to(old.dtype)
    if chosen.kind != "ppo":
        moved = found.detach() if chosen.kind == "policy_gradient" else own
        weights = weights * truncated(moved, sampled, settings.importance_cap)
    if chosen.kind == "policy_gradient":
        loss = policy_loss(found, advantages, weights, scale)
        held = torch.zeros_like(kept)
    else:
        anchor = sampled if chosen.kind == "ppo" else own
        clips = chosen.clip_low, chosen.clip_high, chosen.dual_clip
        loss = ppo_loss(found, anchor, advantages, weights, scale, *clips)
        held = clipped(found, anchor, advantages, *clips)
    if chosen.kl:
        distance = kl_estimates(found, torch.where(kept, tokens.reference, 0.0), chosen.kl_estimator)
        loss = loss + chosen.kl * scale * distance.sum()
    if chosen.entropy:
        loss = loss - chosen.entropy * scale * torch.where(kept, entropy, 0.0).sum()
    return PackLoss(loss, logprobs.detach(), old, held, entropy)


def sampled_by(old: torch.Tensor, tokens: Tokens, settings: LearnerSettings) -> torch.Tensor:
    """`sampled_at`, or what the engine told of every token, where on-policy ones are corrected too."""
    if settings.corrects_fresh:
        return tokens.sampler_logprobs
    return sampled_at(old, tokens.sampler_logprobs, tokens.on_policy)


def kept_tokens(old: torch.Tensor, tokens: Tokens, settings: LearnerSettings) -> torch.Tensor:
    """bool: which tokens pass the masks."""
    kept = torch.ones_like(tokens.on_policy)
    if settings.loss.token_mask is None and settings.loss.sequence_mask is None:
        return kept
    moved = old - sampled_by(old, tokens, settings)
    if settings.loss.token_mask is not None:
        kept &= token_mask(moved, *settings.loss.token_mask)
    if settings.loss.sequence_mask is not None:
        kept &= sequence_mask(moved, tokens.trained_lengths, *settings.loss.sequence_mask)
    return kept
