"""A small network on sentence embeddings of utterance, observation and history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from reward_service.intentions.corpus import Embed
from reward_service.models.memory import Texts
from reward_service.models.settings import Reads, RewardModelSettings

if TYPE_CHECKING:
    from reward_service.models.perceptron import Perceptron


class Embedding(RewardModelSettings):
    encoder: str | None = Field(
        None, description="sentence-transformers model (folder or hub name); null: the MiniLM that comes packaged"
    )
    dimensions: int = Field(32, ge=1, description="principal components of an embedding that are kept")
    decay: float = Field(
        0.7, ge=0, lt=1, description="weight of a turn in the pooled history, against the turn after it; 0: the last"
    )
    hidden: int = Field(128, ge=1, description="units in each of the two hidden layers")
    weight_decay: float = Field(
        10.0, ge=0, description="of AdamW: weights shrink by this times the learning rate a step"
    )
    steps: int | None = Field(400, ge=1, description="steps in all, at most; null: as many as the epochs have")

    def fresh(self, reads: Reads, texts: Texts) -> Perceptron:
        from reward_service.models.perceptron import Perceptron

        return Perceptron.fresh(self, texts, self.seed)

    def of_state(self, reads: Reads, state: dict[str, Any]) -> Perceptron:
        from reward_service.models.perceptron import Perceptron

        return Perceptron.of_state(self, state)

    @property
    def embed(self) -> Embed:
        from envs.text.embedding import embed

        return lambda texts: embed(texts, self.encoder)
