"""Settings of the rollout floor. Plain pydantic: no torch, vllm or ray."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from envs.settings import EndpointSettings, Resource, Settings


class EngineSettings(Settings):
    """The inference engine inside each rollout worker."""

    kind: Literal["auto", "vllm", "transformers"] = Field(
        "auto",
        description="vllm, or transformers: a plain batched sampler; auto: vllm, but transformers for an embedded "
        "policy of less than 30M weights and a context of at most 2,048 tokens on a CPU, where it is faster",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="weights' type; auto: bfloat16 if learner and engine are on GPUs, else float32"
    )
    tensor_parallel: Resource[int] = Field(1, ge=1, description="GPUs that share one engine")
    max_context: int = Field(1024, ge=16, description="longest prompt plus answer of one seat, in tokens")
    max_sequences: Resource[int] = Field(64, ge=1, description="sequences the engine decodes at once")
    max_batched_tokens: Resource[int] = Field(
        4096, ge=64, description="tokens of one engine step; on GPU longer prompts are split over steps"
    )
    sleep: Resource[bool | None] = Field(
        None,
        description="give the card's memory back while the learners update; default: where engine and learner share "
        "a card that cannot hold both",
    )
    gpu_memory_share: Resource[float | None] = Field(
        None,
        gt=0,
        le=1,
        description="share of a GPU's memory that the engine may take; default: what the plan gives it",
    )
    gpu_cache_gib: Resource[float | None] = Field(
        None,
        gt=0,
        description="key-value cache on a GPU, GiB; default: on a shared card what the learner leaves, else "
        "what gpu_memory_share leaves",
    )
    cpu_cache_gib: Resource[float] = Field(1.0, gt=0, description="key-value cache on CPU, GiB")
    enforce_eager: Resource[bool | None] = Field(
        None, description="no CUDA graphs or compilation; default: true on CPU, false on GPU"
    )
    prefix_caching: Resource[bool] = Field(True, description="reuse the keys and values of a growing prompt")
    start_seconds: Resource[float] = Field(600.0, gt=0, description="time limit for an engine to start")


MOST_WORKERS = 10_000


class WorkerRange(Settings):
    """Rollout workers of a cluster that grows and shrinks."""

    least: int = Field(1, ge=1, le=MOST_WORKERS, description="workers with which a run starts")
    most: int = Field(ge=1, le=MOST_WORKERS, description="workers it may have; places for those missing are asked for")

    @model_validator(mode="after")
    def least_is_not_more(self) -> WorkerRange:
        if self.least > self.most:
            raise ValueError(f"least={self.least} is more than most={self.most}")
        return self


def _number_or_range(value: Any) -> str:
    return "[range]" if isinstance(value, dict | WorkerRange) else "[number]"


Workers = Annotated[
    Annotated[int, Field(ge=1, le=MOST_WORKERS), Tag("[number]")] | Annotated[WorkerRange, Tag("[range]")],
    Discriminator(_number_or_range),
]


class RolloutSettings(Settings):
    workers: Resource[Workers] = Field(
        1,
        description="rollout workers, each with an engine of its own: a number, or {least: 1, most: 4} where nodes "
        "come and go: the run starts with `least`, and asks Ray for places until there are `most`",
    )
    cpus_per_worker: Resource[float] = Field(1.0, ge=0, description="CPUs each worker reserves from Ray")
    gpus_per_worker: Resource[float | None] = Field(
        None,
        ge=0,
        description="GPUs each worker reserves from Ray; default: tensor_parallel of them where there are GPUs, or its "
        "share of one",
    )
    share_cards: Resource[bool | None] = Field(
        None,
        description="worker i plays on the card of learner rank i; default: where there are too few cards for both",
    )
    episodes_in_flight: Resource[int] = Field(
        256, ge=1, description="most episodes one worker plays at once; one begins when the engine has room for it"
    )
    temperature: float = Field(
        1.0, ge=0.01, description="sampling temperature; applied in training too. vLLM takes no smaller one"
    )
    max_utterance_tokens: int = Field(64, ge=1, description="longest utterance, in tokens")
    choose_listed: bool = Field(
        False,
        description="where a game lists actions, draw one of them by the log-probs of their tokens, instead of "
        "sampling text",
    )
    choice_length: Literal["words", "tokens", "none"] = Field(
        "words", description="choose_listed: what the log-prob of an action's tokens is divided by"
    )
    score_answers: bool = Field(
        False,
        description="when a game of training is over, score what would have been right to say before each turn, where "
        "the game knows: what reward.shaper=igpo pays by",
    )
    episode_seconds: Resource[float] = Field(
        120.0, gt=0, description="time limit of one episode; past it the ticket is issued again"
    )
    turn_seconds: Resource[float | None] = Field(
        None, gt=0, description="time limit of what a slow game or an endpoint does in one turn; default: the episode's"
    )
    snapshot_seconds: Resource[float | None] = Field(
        30.0,
        gt=0,
        description="how often a snapshot is taken of an episode that lasts longer; it goes on from there when its "
        "worker is lost. null: it begins anew",
    )
    game_threads: Resource[int] = Field(
        64, ge=2, description="slow games that one worker steps at once; those whose step is a coroutine need no thread"
    )
    batch_seconds: Resource[float] = Field(
        1800.0, gt=0, description="longest wait for a batch before the run stops with what was missing"
    )
    worker_silence_seconds: Resource[float] = Field(120.0, gt=0, description="a worker silent for longer is replaced")
    max_attempts: Resource[int] = Field(5, ge=1, description="times a ticket is tried before it is dropped")
    max_worker_restarts: Resource[int] = Field(
        5,
        ge=0,
        description="times within an hour that one worker is replaced; then its place rests, and the others go on. The "
        "run stops when all rest",
    )
    engine: EngineSettings = Field(default_factory=EngineSettings)
    endpoints: dict[str, EndpointSettings] = Field(
        default_factory=dict, description="endpoints by name, for players 'endpoint:NAME'"
    )
    frozen: dict[str, str] = Field(
        default_factory=dict,
        description="frozen policies by name -> folder of a model or adapter, for players 'frozen:NAME'",
    )
    frozen_sequences: Resource[int] = Field(
        32, ge=1, description="sequences that a frozen policy decodes at once; its cache has a row for each"
    )

    @property
    def least_workers(self) -> int:
        """Those that a run starts with."""
        return self.workers if isinstance(self.workers, int) else self.workers.least

    @property
    def most_workers(self) -> int:
        return self.workers if isinstance(self.workers, int) else self.workers.most

    @property
    def workers_key(self) -> str:
        """The setting that says how many a run starts with."""
        return "rollout.workers" if isinstance(self.workers, int) else "rollout.workers.least"

    @property
    def workers_in_words(self) -> str:
        least, most = self.least_workers, self.most_workers
        return f"{least if least == most else f'{least} to {most}'} worker{'s' if most > 1 else ''}"

    @model_validator(mode="after")
    def shared_cards_are_of_a_fixed_number(self) -> RolloutSettings:
        if self.share_cards and not isinstance(self.workers, int):
            raise ValueError(
                f"share_cards=true takes a fixed number of workers, not {self.least_workers} to {self.most_workers}"
            )
        return self

    @model_validator(mode="after")
    def lengths_are_those_of_choices(self) -> RolloutSettings:
        if self.choice_length != "words" and not self.choose_listed:
            raise ValueError(f"choice_length={self.choice_length} is read only with choose_listed=true")
        return self
