"""Settings of intention spaces and of the aggregation in them. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from envs.settings import Resource, Settings
from envs.text.embedding import CACHED_TEXTS, EmbeddingEndpointSettings


class SpaceSettings(Settings):
    """How embedded utterances become a hierarchy of clusters, and which cut of it is used."""

    method: Literal["ward", "average", "hdbscan"] = Field(
        "ward",
        description="linkage of the hierarchy, ward or average (the paper's; where kinds overlap it leaves nearly all "
        "in one cluster), or hdbscan: one flat cut",
    )
    prototypes: int = Field(
        1024, ge=2, le=4096, description="most points that are clustered; more distinct utterances are reduced to these"
    )
    dimensions: int = Field(
        64, ge=1, description="principal components that are kept where utterances are reduced to prototypes"
    )
    rounds: int = Field(10, ge=1, description="most passes over all utterances to place the prototypes")
    min_cluster: int = Field(10, ge=2, description="hdbscan: fewest distinct utterances in a cluster")
    density_seconds: Resource[float] = Field(
        300.0, gt=0, description="hdbscan: time limit of the process that it runs in"
    )
    granularity: Literal["split", "silhouette", "fixed"] = Field(
        "split",
        description="how k is chosen; split: the first k after which splitting changes no reward; "
        "silhouette: the best separated k; fixed: `k`",
    )
    k: int = Field(20, ge=1, description="granularity fixed: number of intentions")
    max_k: int = Field(100, ge=2, description="finest cut of the hierarchy")
    epsilon: float = Field(0.01, gt=0, description="split: a mean change of reward below this is none")
    patience: int = Field(10, ge=0, description="split: so many further cuts must change nothing either (tau)")
    amount_weight: float = Field(
        4.0, ge=0, description="weight of parsed amounts beside the unit embedding; 0: words alone decide"
    )
    keep: float = Field(
        0.3, ge=0, le=1, description="a cluster keeps its id across a refit from this overlap (Jaccard) on"
    )
    seed: int = Field(0, ge=0, description="of the prototypes")


class PoolingSettings(Settings):
    """What a turn is worth, given the turns that share its (label history, label action)."""

    gamma: float = Field(0.95, gt=0, le=1, description="discount per turn of a seat: its last turn gets the outcome")
    window: int = Field(1024, ge=1, description="episodes that are aggregated, the latest ones")
    pooling: Literal["exact", "backoff", "shrinkage"] = Field(
        "exact",
        description="exact: the group's mean, as in the paper; backoff: a shorter history where the group is small; "
        "shrinkage: coarse and fine groups weighted by their counts",
    )
    histories: tuple[NonNegativeInt, ...] = Field(
        (4, 2, 1, 0), description="backoff and shrinkage: shorter label histories, in turns, longest first"
    )
    smallest: int = Field(4, ge=1, description="backoff: a group with fewer turns than this is small")
    coarser: tuple[PositiveInt, ...] = Field(
        (), description="shrinkage: coarser cuts of the hierarchy that fine groups lean on, finest first"
    )
    strength: float = Field(4.0, gt=0, description="shrinkage: turns that the coarser estimate counts for")
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
    space: SpaceSettings = Field(default_factory=SpaceSettings)
    aggregate: PoolingSettings = Field(default_factory=PoolingSettings)
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
