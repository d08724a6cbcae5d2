"""Settings of intention spaces and of the aggregation in them. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from envs.settings import Settings
from envs.text.embedding import CACHED_TEXTS, EmbeddingEndpointSettings
from reward_service.intentions.clustering.clustering import CLUSTERINGS, AnySpace
from reward_service.intentions.pooling.pooling import POOLINGS, AnyPooling

MOST_PERIODS = 1000  # 2**-1000 is still a number


class AggregateSettings(Settings):
    """What a turn is worth, given the turns that share its (label history, label action)."""

    gamma: float = Field(0.95, gt=0, le=1, description="discount per turn of a seat: its last turn gets the outcome")
    window: int = Field(1024, ge=1, description="episodes that are aggregated, the latest ones")
    half_life: int | None = Field(
        None,
        ge=1,
        description="episodes of a period: what turns of a period brought counts half of what those of the next one "
        "did, up to the latest; null, and offline: all count alike",
    )
    pooling: AnyPooling = Field(
        default_factory=lambda: POOLINGS.make(POOLINGS.default), description="how turns share what they brought"
    )
    own: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of a turn's own return in what it is worth, so that what a group cannot tell apart is "
        "learned too; the rest is pooled. 0: the paper",
    )
    baseline: Literal["none", "turn", "history"] = Field(
        "none",
        description="what is subtracted; none: nothing, as in the paper; turn: the mean at the same turn of the "
        "same seat; history: the mean over all actions at the same label history",
    )

    @model_validator(mode="after")
    def old_periods_count_something(self) -> AggregateSettings:
        if self.half_life is not None and self.window > MOST_PERIODS * self.half_life:
            raise ValueError(
                f"window={self.window} with half_life={self.half_life}: what is {MOST_PERIODS} half-lives old counts "
                f"nothing; give a window of at most {MOST_PERIODS * self.half_life}"
            )
        return self


class EmbeddingSettings(Settings):
    """Who embeds, and how much of it is remembered."""

    endpoint: EmbeddingEndpointSettings | None = Field(
        None, description="OpenAI-compatible server that embeds (url, model, ...); null: `model` here"
    )
    cached: int = Field(CACHED_TEXTS, ge=1, description="distinct texts whose embeddings are kept, the latest ones")


class IntentionSettings(Settings):
    """What was meant: who embeds utterances, how they are clustered, and what turns with equal labels share."""

    model: str | None = Field(
        None, description="sentence-transformers model (folder or hub name); null: the MiniLM that comes packaged"
    )
    observations: Literal["game", "text", "labels", "none"] = Field(
        "game",
        description="what a seat hears in its label history; text: clustered like what it says; labels: yes, no or "
        "other; none: left out; game: what the game asks for, or text",
    )
    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    space: AnySpace = Field(
        default_factory=lambda: CLUSTERINGS.make(CLUSTERINGS.default), description="how utterances become intentions"
    )
    aggregate: AggregateSettings = Field(default_factory=AggregateSettings)
    first_fit: int = Field(500, ge=1, description="utterances, repeated ones too, before the first intention space")
    growth: float = Field(0.5, gt=0, description="refit when new distinct utterances are this share of those fitted")
    drift: float = Field(
        0.2, gt=0, le=1, description="refit when this share of utterances lies outside what was fitted"
    )
    refit: Literal["inline", "beside"] = Field(
        "beside",
        description="beside: in a process of its own while play goes on, published between two batches; inline: as "
        "soon as one is due, and the batch waits for it",
    )

    @model_validator(mode="after")
    def one_embeds(self) -> IntentionSettings:
        if self.model is not None and self.embedding.endpoint is not None:
            raise ValueError(
                f"model={self.model} would be loaded here, but embedding.endpoint={self.embedding.endpoint.url} is to "
                "embed: give one of them"
            )
        return self
