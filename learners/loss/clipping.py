"""The clipped objective of PPO, and the settings of its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from learners.loss.loss import SamplerLoss
from learners.loss.ratios import log_ratios

if TYPE_CHECKING:
    import torch


class ClippedLoss(SamplerLoss):
    clip_low: float = Field(0.2, gt=0, lt=1, description="the ratio counts down to 1 - clip_low")
    clip_high: float = Field(0.2, gt=0, description="the ratio counts up to 1 + clip_high")
    dual_clip: float | None = Field(
        None, gt=1, description="ratio up to which a token of negative advantage counts; default: any"
    )

    @property
    def bounds(self) -> dict[str, float | None]:
        """As ppo_loss and clipped take them."""
        return {"low": self.clip_low, "high": self.clip_high, "dual_clip": self.dual_clip}


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
    gains = (ratios * advantages).minimum(ratios.clamp(1 - low, 1 + high) * advantages)
    if dual_clip is not None:
        gains = gains.maximum(dual_clip * advantages).where(advantages < 0, gains)
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
