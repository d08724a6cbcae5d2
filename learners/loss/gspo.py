"""GSPO: clipped by how likely the whole game still is, token by token in its geometric mean (arXiv 2507.18071).

- min(s A, clip(s, 1 - clip_low, 1 + clip_high) A)        s = (pi / sampler of all that a seat said in a game)^(1 / n)

The gradient of s at a token is that of its own log-prob: s stands for sg(s) pi / sg(pi), sg being a constant of the
gradient. n counts the tokens that no mask dropped. A game's tokens count as `learner.loss_aggregation` says; the paper
takes the mean of each game, and then that of the games. Ratios of whole games stay near 1, so the bounds are narrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from learners.loss.clipping import ClippedLoss, clipped, ppo_loss
from learners.loss.loss import PolicyTokens
from learners.loss.ratios import log_ratios

if TYPE_CHECKING:
    import torch


class Gspo(ClippedLoss):
    clip_low: float = Field(3e-4, gt=0, lt=1, description="the ratio counts down to 1 - clip_low")
    clip_high: float = Field(4e-4, gt=0, description="the ratio counts up to 1 + clip_high")

    def policy_term(self, tokens: PolicyTokens, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        likely = game_ratios(tokens)
        moved = tokens.logprobs - tokens.logprobs.detach() + likely  # the game's ratio, the token's gradient
        none = moved.new_zeros(moved.shape)
        loss = ppo_loss(moved, none, tokens.advantages, tokens.kept, scale, **self.bounds)
        return loss, clipped(moved, none, tokens.advantages, **self.bounds)


def game_ratios(tokens: PolicyTokens) -> torch.Tensor:
    """log s of each token's game."""
    rows = tokens.lengths
    row = (rows.new_ones(len(rows)).cumsum(0) - 1).repeat_interleave(rows)
    moved = tokens.kept * log_ratios(tokens.logprobs.detach(), tokens.sampled)
    sums = moved.double().new_zeros(len(rows)).index_add_(0, row, moved.double())
    counts = sums.new_zeros(len(rows)).index_add_(0, row, tokens.kept.double())
    return (sums / counts.clamp(min=1))[row].to(moved.dtype)
