"""Decoupled PPO: clipped against the weights at the start of the update, whoever sampled (Hilton et al. 2022).

    - w min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)      r = pi / old, w = min(old / sampler, importance_cap)

The clip limits how far the update goes, not how old the data is; w is a constant of the gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from learners.loss.clipping import ClippedLoss, clipped, ppo_loss
from learners.loss.loss import PolicyTokens
from learners.loss.ratios import truncated

if TYPE_CHECKING:
    import torch


class Decoupled(ClippedLoss):
    importance_cap: float = Field(2.0, ge=1, description="cap of the weight pi/pi_sampler on tokens from older weights")

    def policy_term(self, tokens: PolicyTokens, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        weights = tokens.kept * truncated(tokens.old, tokens.sampled, self.importance_cap)
        loss = ppo_loss(tokens.logprobs, tokens.old, tokens.advantages, weights, scale, **self.bounds)
        return loss, clipped(tokens.logprobs, tokens.old, tokens.advantages, **self.bounds)
