"""The contract of a kind of reward model: what values a turn, and how it is trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from envs.kinds import Kinds
from envs.settings import Settings
from reward_service.intentions.corpus import Embed
from reward_service.models.memory import Texts

if TYPE_CHECKING:
    from reward_service.models.training import Network

Reads = Literal["turn", "game"]  # what a model that reads is given at once


class RewardModelSettings(Settings, ABC):
    held_out: float = Field(0.1, gt=0, lt=1, description="share of the episodes that are for measuring, not training")
    seconds: float = Field(300.0, gt=0, description="time limit of one training; one that takes longer has failed")
    seed: int = Field(0, ge=0, description="of first weights, order of examples and choice of the held-out episodes")

    learning_rate: float = Field(1e-3, gt=0, description="of AdamW")
    weight_decay: float = Field(0.01, ge=0, description="of AdamW")
    batch: int = Field(64, ge=1, description="examples in a step: turns for aria_rm, games for spa")
    epochs: int = Field(20, ge=1, description="passes over the examples, at most")
    steps: int | None = Field(None, ge=1, description="steps in all, at most; null: as many as the epochs have")

    @abstractmethod
    def fresh(self, reads: Reads, texts: Texts) -> Network: ...

    @abstractmethod
    def of_state(self, reads: Reads, state: dict[str, Any]) -> Network: ...

    def check(self, reads: Reads) -> None:
        """A model that cannot be loaded is refused at once, not when it is first trained."""

    @property
    def embed(self) -> Embed | None:
        """What embeds texts for it; None where none are wanted."""
        return None


REWARD_MODELS = Kinds("reward model", "kind", "embedding", "reward_service.models", RewardModelSettings)
AnyRewardModel = Annotated[RewardModelSettings, REWARD_MODELS]
