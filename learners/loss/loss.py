"""The contract of a loss: a sum over tokens that does not know how the batch was cut up.

    loss = scale * sum over trained tokens of  policy term + kl * KL term - entropy * H

`scale` is 1 / (number of tokens, turns or episodes in the WHOLE minibatch, over all ranks
and micro-batches), so the gradient is the same for every micro-batch size, packing and
number of ranks. With `episode` it is the policy gradient of the expected return.

Three log-probs of a token are told apart: `logprobs` by the weights being trained, the only
one with a gradient; `old` by the weights at the start of the update; `sampler` by the weights
that sampled it, as the engine computed it. A token is `on_policy` if the last two are the same
weights. Engine and trainer round differently, and an on-policy update must not depend on that:
on such tokens `old` stands for `sampler`, so at the first step every ratio of theirs is exactly 1.
With `correct_on_policy` it does not: on-policy tokens are then corrected like all others.

What a mask drops is 0 in value and gradient, whatever its numbers are; `scale` does not change with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from envs.kinds import Kinds
from envs.settings import Settings
from learners.loss.ratios import kl_estimates, sampled_at, sequence_mask, token_mask

if TYPE_CHECKING:
    import torch

Bounds = tuple[float, float]


@dataclass(slots=True)
class Tokens:
    """The trained tokens of one micro-batch, in its order: constants of the gradient."""

    advantages: torch.Tensor
    sampler_logprobs: torch.Tensor | None  # None: nobody knows who sampled
    on_policy: torch.Tensor | None  # bool: sampled by the very weights that the update starts from
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
    total: torch.Tensor  # of the log-probs, with its gradient, which no clip and no mask stops


@dataclass(slots=True)
class PolicyTokens:
    """What a policy term is made of. Tokens that a mask dropped have 0 everywhere."""

    logprobs: torch.Tensor  # with their gradient
    old: torch.Tensor
    sampled: torch.Tensor | None  # by the weights that sampled, or `old` where these are the same
    advantages: torch.Tensor
    kept: torch.Tensor  # 1, or 0 where a mask dropped the token
    lengths: torch.Tensor  # int64 [sequences]: how many of the tokens each seat's game has


class Loss(Settings, ABC):
    """A loss of your own derives from it, or from SamplerLoss, and defines `policy_term`."""

    asks_sampler: ClassVar[bool] = False  # whether it compares with the weights that sampled

    kl: float = Field(0.0, ge=0, description="coefficient of the distance to the policy that the run started from")
    kl_estimator: Literal["k1", "k2", "k3"] = Field("k3", description="how that distance is estimated at a token")
    entropy: float = Field(0.0, ge=0, description="coefficient of the entropy bonus")
    router_aux: float = Field(
        0.0, ge=0, description="models of experts: coefficient of the loss that keeps the routers' load even"
    )
    kl_guard: float | None = Field(
        None,
        gt=0,
        description="distance from the weights at the start of the update that its steps do not go past: the one that "
        "would is shortened, the rest are left out; POAD's authors ran 0.02; default: none",
    )

    @model_validator(mode="after")
    def estimator_is_read(self) -> Loss:
        if self.kl == 0 and self.kl_estimator != type(self).model_fields["kl_estimator"].default:
            raise ValueError(f"kl=0 does not read kl_estimator={self.kl_estimator}")
        return self

    @abstractmethod
    def policy_term(self, tokens: PolicyTokens, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The term's sum over the tokens, times `scale`; and on which tokens a clip left it no gradient."""

    def of_pack(self, logprobs: torch.Tensor, entropy: torch.Tensor | None, tokens: Tokens, scale: float) -> PackLoss:
        """The whole loss of one micro-batch; `entropy` only where it has a coefficient."""
        old = logprobs.detach() if tokens.old_logprobs is None else tokens.old_logprobs
        kept, sampled = self.kept_tokens(old, tokens), self.sampled_by(old, tokens)
        found = logprobs.where(kept, 0.0)  # so nothing of what is dropped reaches a gradient
        term, clipped = self.policy_term(
            PolicyTokens(
                logprobs=found,
                old=old.where(kept, 0.0),
                sampled=None if sampled is None else sampled.where(kept, 0.0),
                advantages=tokens.advantages.where(kept, 0.0),
                kept=kept.to(old.dtype),
                lengths=tokens.trained_lengths,
            ),
            scale,
        )
        loss = term
        if self.kl:
            distance = kl_estimates(found, tokens.reference.where(kept, 0.0), self.kl_estimator)
            loss = loss + self.kl * scale * distance.sum()
        if self.entropy:
            loss = loss - self.entropy * scale * entropy.where(kept, 0.0).sum()
        return PackLoss(loss, logprobs.detach(), old, clipped, entropy, logprobs.sum())

    def sampled_by(self, old: torch.Tensor, tokens: Tokens) -> torch.Tensor | None:
        return None

    def kept_tokens(self, old: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """bool: which tokens pass the masks."""
        return old.new_ones(old.shape).bool()

    @property
    def masks(self) -> bool:
        return False


class SamplerLoss(Loss):
    """A loss that compares with the weights that sampled: it can weigh and drop tokens of older ones."""

    asks_sampler = True

    token_mask: Bounds | None = Field(
        None, description="[low, high]: tokens of older weights whose pi/pi_sampler lies outside are dropped"
    )
    sequence_mask: Bounds | None = Field(
        None, description="[low, high]: so are games of one seat by the geometric mean of that ratio over their tokens"
    )
    correct_on_policy: bool = Field(
        False,
        description="tokens of the present weights are weighted and masked too, by the log-probs that the engine "
        "stored: corrects for an engine that rounds differently from the trainer",
    )

    @model_validator(mode="after")
    def bounds_lie_around_1(self) -> SamplerLoss:
        for name in ("token_mask", "sequence_mask"):
            bounds = getattr(self, name)
            if bounds is not None and not 0 <= bounds[0] <= 1 <= bounds[1]:
                raise ValueError(f"{name}={list(bounds)} has to lie around 1, the ratio of fresh tokens")
        return self

    @property
    def masks(self) -> bool:
        return self.token_mask is not None or self.sequence_mask is not None

    def sampled_by(self, old: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """`sampled_at`, or what the engine told of every token, where on-policy ones are corrected too."""
        if self.correct_on_policy:
            return tokens.sampler_logprobs
        return sampled_at(old, tokens.sampler_logprobs, tokens.on_policy)

    def kept_tokens(self, old: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        kept = super().kept_tokens(old, tokens)
        if not self.masks:
            return kept
        moved = old - self.sampled_by(old, tokens)
        if self.token_mask is not None:
            kept &= token_mask(moved, *self.token_mask)
        if self.sequence_mask is not None:
            kept &= sequence_mask(moved, tokens.trained_lengths, *self.sequence_mask)
        return kept


LOSS = Kinds("loss", "kind", "policy_gradient", "learners.loss", Loss)
AnyLoss = Annotated[Loss, LOSS]
