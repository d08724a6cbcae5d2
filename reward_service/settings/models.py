"""Settings of learned shapers. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from envs.settings import Settings

Reads = Literal["turn", "game"]  # what a transformer reads at once


class PerceptronSettings(Settings):
    """A small network on sentence embeddings."""

    encoder: str | None = Field(
        None, description="sentence-transformers model (folder or hub name); null: the MiniLM that comes packaged"
    )
    dimensions: int = Field(32, ge=1, description="principal components of an embedding that are kept")
    decay: float = Field(
        0.7, ge=0, lt=1, description="weight of a turn in the pooled history, against the turn after it; 0: the last"
    )
    hidden: int = Field(128, ge=1, description="units in each of the two hidden layers")
    learning_rate: float = Field(1e-3, gt=0, description="of AdamW")
    weight_decay: float = Field(
        10.0, ge=0, description="of AdamW: weights shrink by this times the learning rate a step"
    )
    batch: int = Field(64, ge=1, description="examples in a step: turns for aria_rm, games for spa")
    epochs: int = Field(20, ge=1, description="passes over the examples, at most")
    steps: int | None = Field(400, ge=1, description="steps in all, at most; null: as many as the epochs have")


class TransformerSettings(Settings):
    """A Hugging Face model that reads the game, all of its weights trained."""

    path: str | None = Field(None, description="model folder or hub name; has to be given where kind=transformer")
    max_tokens: int = Field(512, ge=8, description="longest text that is read at once; of a longer one, its end")
    learning_rate: float = Field(2e-5, gt=0, description="of AdamW")
    weight_decay: float = Field(0.01, ge=0, description="of AdamW")
    batch: int = Field(64, ge=1, description="examples in a step: turns for aria_rm, games for spa")
    epochs: int = Field(3, ge=1, description="passes over the examples, at most")
    steps: int | None = Field(None, ge=1, description="steps in all, at most; null: as many as the epochs have")
    tokens_at_once: int = Field(8192, ge=1, description="most tokens, padding too, in a pass over several texts")


class RewardModelSettings(Settings):
    """What values a turn, and how it is trained."""

    kind: Literal["embedding", "transformer"] = Field(
        "embedding",
        description="embedding: a small network on sentence embeddings of utterance, observation and history; "
        "transformer: a Hugging Face model that reads them",
    )
    embedding: PerceptronSettings = Field(default_factory=PerceptronSettings)
    transformer: TransformerSettings = Field(default_factory=TransformerSettings)
    held_out: float = Field(0.1, gt=0, lt=1, description="share of the episodes that are for measuring, not training")
    seconds: float = Field(300.0, gt=0, description="time limit of one training; one that takes longer has failed")
    seed: int = Field(0, ge=0, description="of first weights, order of examples and choice of the held-out episodes")

    @model_validator(mode="after")
    def a_transformer_is_named(self) -> RewardModelSettings:
        if self.kind == "transformer" and not self.transformer.path:
            raise ValueError("kind=transformer needs transformer.path: a model folder or hub name")
        return self


class AriaRmSettings(Settings):
    """ARIA's reward model: it learns the aggregated rewards and values fresh utterances."""

    model: RewardModelSettings = Field(default_factory=RewardModelSettings)
    first: int = Field(10, ge=1, description="updates before the first model is trained")
    every: int = Field(50, ge=1, description="updates from one training to the next")
    middle: float = Field(0.5, description="an aggregated reward near this tells little")
    middle_width: float = Field(0.05, ge=0, description="nearer than this to `middle`: weight `middle_weight`")
    middle_weight: float = Field(0.5, gt=0, description="weight of such a turn in the squared error")
    low: float = Field(0.01, description="an aggregated reward below this has weight `edge_weight`")
    high: float = Field(0.8, description="an aggregated reward above this has weight `edge_weight`")
    edge_weight: float = Field(2.0, gt=0, description="weight of such a turn in the squared error; of all others, 1")


class SpaSettings(Settings):
    """Stepwise progress attribution: what each turn contributed to the outcome."""

    model: RewardModelSettings = Field(default_factory=RewardModelSettings)
    window: int = Field(1024, ge=1, description="episodes that the estimator is trained on, the latest ones")
    first: int = Field(4, ge=1, description="updates before the first estimator is trained")
    every: int = Field(10, ge=1, description="updates from one training to the next")
    grounding: float = Field(0.5, ge=0, description="reward of a turn that the game could execute, beside its progress")
    matched: bool = Field(
        False, description="spread what an episode's progress lacks of its outcome over its turns, equally"
    )
