"""PPO: clipped against the weights that sampled (Schulman et al. 2017).

- min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)        r = pi / sampler
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from learners.loss.clipping import ClippedLoss, clipped, ppo_loss
from learners.loss.loss import PolicyTokens

if TYPE_CHECKING:
    import torch


class Ppo(ClippedLoss):
    def policy_term(self, tokens: PolicyTokens, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        loss = ppo_loss(tokens.logprobs, tokens.sampled, tokens.advantages, tokens.kept, scale, **self.bounds)
        return loss, clipped(tokens.logprobs, tokens.sampled, tokens.advantages, **self.bounds)
