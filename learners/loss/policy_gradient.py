"""The policy gradient; tokens of older weights are weighted by how likely they still are.

    - w A log pi          w = min(pi / sampler, importance_cap), a constant of the gradient

Truncated importance sampling (Espeholt et al. 2018). With several steps on a batch it is CISPO (MiniMax 2025), by an
absolute bound: no token loses its gradient, as tokens beyond PPO's clip do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from learners.loss.loss import PolicyTokens, SamplerLoss
from learners.loss.ratios import truncated

if TYPE_CHECKING:
    import torch


class PolicyGradient(SamplerLoss):
    importance_cap: float = Field(2.0, ge=1, description="cap of the weight pi/pi_sampler on tokens from older weights")

    def policy_term(self, tokens: PolicyTokens, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        weights = tokens.kept * truncated(tokens.logprobs.detach(), tokens.sampled, self.importance_cap)
        loss = policy_loss(tokens.logprobs, tokens.advantages, weights, scale)
        return loss, tokens.kept.bool().new_zeros(tokens.kept.shape)


def policy_loss(logprobs: torch.Tensor, advantages: torch.Tensor, weights: torch.Tensor, scale: float) -> torch.Tensor:
    return -scale * (weights * advantages * logprobs).sum()
