"""The likelihood of what was played, weighted by its advantage; whoever played it. For recorded games.

- A log pi
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from learners.loss.loss import Loss, PolicyTokens
from learners.loss.policy_gradient import policy_loss

if TYPE_CHECKING:
    import torch


class Likelihood(Loss):
    def policy_term(self, tokens: PolicyTokens, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        loss = policy_loss(tokens.logprobs, tokens.advantages, tokens.kept, scale)
        return loss, tokens.kept.bool().new_zeros(tokens.kept.shape)
