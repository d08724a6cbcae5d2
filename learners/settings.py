"""Settings of the learner floor. Plain pydantic: no torch, deepspeed or ray."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, model_validator

from envs.settings import Resource, Settings
from learners.credit.critics import CriticSettings, Schedule, UtteranceCriticSettings
from learners.credit.method import CREDIT, AnyCredit
from learners.loss.loss import LOSS, AnyLoss, SamplerLoss

Decay = Annotated[float, Field(ge=0, lt=1)]

REDUCE_BUCKET = 50_000_000  # weights whose gradients DeepSpeed reduces at once; on a card it holds room for them
ALL_LINEAR = "all-linear"
EXPERT_COUNTS = "num_experts", "num_local_experts", "n_routed_experts"  # as models' configurations call it


class LoraSettings(Settings):
    rank: int = Field(0, ge=0, description="rank of the adapter; 0 trains all weights")
    alpha: float = Field(16.0, gt=0, description="scale of the adapter")
    targets: list[str] = Field(
        default_factory=lambda: ["q_proj", "k_proj", "v_proj", "o_proj"],
        min_length=1,
        description=f"layers that get an adapter; [{ALL_LINEAR}]: all of the blocks, beside experts those of attention",
    )

    @model_validator(mode="after")
    def targets_are_read(self) -> LoraSettings:
        if self.rank == 0 and self.targets != LoraSettings.model_fields["targets"].get_default(
            call_default_factory=True
        ):
            raise ValueError(f"rank=0 trains all weights and does not read targets={self.targets}: set rank")
        return self


class SyncSettings(Settings):
    transport: Literal["auto", "shared_memory", "object_store", "nccl", "gloo", "ipc", "adapter"] = Field(
        "auto",
        description="how weights reach the engines; auto: adapter for LoRA, ipc on shared cards, nccl between cards, "
        "else shared_memory on one node, object_store across nodes; gloo is nccl's broadcast between CPUs",
    )
    timeout_seconds: float = Field(300.0, gt=0, description="time limit of one sync")
    silence_seconds: float = Field(
        30.0, gt=0, description="a rollout worker that shows no sign of life for so long in a sync is given up"
    )
    probe: bool = Field(
        True, description="compare the engines' log-probs with the trainer's; digests of the weights always are"
    )
    probe_every: int = Field(
        10,
        ge=0,
        description="updates from one such comparison to the next; 0: only at the first sync and when a worker joins",
    )
    tolerance: float | None = Field(
        None,
        gt=0,
        description="gap allowed: in float32 of 99 in 100 log-probs, as a share of one below -1, default 1e-4; in "
        "half precision of the mean, as a share of the log-probs' spread, default 0.1 (0.25 of less than 64 tokens)",
    )
    bucket_mib: int = Field(256, ge=1, description="memory for weights in transit at a time, MiB")


class LearnerSettings(Settings):
    ranks: int = Field(1, ge=1, le=10_000, description="DeepSpeed ranks, each a Ray actor")
    cpus_per_rank: Resource[float] = Field(1.0, ge=0, description="CPUs each rank reserves from Ray")
    threads: Resource[int | None] = Field(
        None,
        ge=1,
        description="threads of each rank on CPUs; default: as many as the machine has cores that nobody plays on "
        "meanwhile, at most 8; on several nodes cpus_per_rank",
    )
    gpus_per_rank: Resource[float | None] = Field(
        None, ge=0, le=1, description="GPUs each rank reserves from Ray; default: 1 where there are GPUs, or its share"
    )
    zero: Literal[0, 1, 2, 3] = Field(2, description="DeepSpeed ZeRO stage")
    offload_optimizer: Resource[bool] = Field(False, description="keep optimiser state in CPU memory")
    offload_parameters: Resource[bool] = Field(
        False, description="keep weights in CPU memory while no layer needs them; ZeRO-3"
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="compute type; auto: bfloat16 if learner and engine are on GPUs, else float32"
    )
    learning_rate: float = Field(3e-4, gt=0, description="AdamW step size")
    betas: tuple[Decay, Decay] = Field((0.9, 0.999), description="AdamW moment decays")
    eps: float = Field(1e-8, gt=0, description="AdamW's epsilon: a weight whose gradients are smaller moves less")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay")
    warmup_updates: int = Field(0, ge=0, description="updates over which the step size rises from 0")
    schedule: Schedule = Field("constant", description="how the step size falls after that")
    schedule_updates: int | None = Field(
        None, ge=1, description="updates by which the step size has fallen to 0; default: all of the run's"
    )
    epochs: int = Field(1, ge=1, description="times that an update goes through its batch")
    minibatches: int = Field(
        1, ge=1, description="optimiser steps in each epoch, every one on a share of the batch's whole games"
    )
    replay_batches: int = Field(
        0,
        ge=0,
        le=100,
        description="newest batches before this one that an update learns from once more: fewer games, longer updates",
    )
    gradient_clip: float = Field(1.0, gt=0, description="largest gradient norm")
    tokens_per_micro_batch: Resource[int] = Field(
        4096, ge=16, description="tokens packed into one forward pass; bounds activation memory"
    )
    gradient_checkpointing: Resource[bool] = Field(False, description="recompute activations in the backward pass")
    router_replay: bool = Field(
        False, description="models of experts: send each token to the experts that the engine sent it to"
    )
    attention: Literal["auto", "sdpa", "varlen", "eager", "flash_attention_2"] = Field(
        "auto",
        description="attention kernels; auto: flash_attention_2 on GPUs that have it, else sdpa; varlen: torch's own "
        "flash attention over packed sequences, on GPUs; eager: the plain formula, to compare with",
    )
    share_openings: Resource[bool | None] = Field(
        None,
        description="compute once what games of a micro-batch begin with alike, as rules; default: on CPUs, if "
        "the model can (docs/concepts/models.md)",
    )
    loss_aggregation: Literal["token", "turn", "episode"] = Field(
        "episode", description="what is averaged: tokens, turns or episodes"
    )
    mask_cut_off: bool = Field(
        False,
        description="leave games that were cut off, by their turn limit or by the context, out of the policy's loss "
        "(overlong filtering); credit and critic still compare with them",
    )
    logprob_gap_warn: float | None = Field(
        None,
        gt=0,
        description="mean |log-prob of the trainer - stored| on tokens of the present weights that is warned of; "
        "default: 1e-3 in float32, 0.1 in half precision",
    )
    logprob_gap_stop: float | None = Field(
        None, gt=0, description="the same, that stops the run; default: 0.1 in float32, 1 in half precision"
    )
    max_bad_updates: int = Field(
        5, ge=1, description="updates with a non-finite loss or gradient, whose step is skipped, before the run stops"
    )
    start_seconds: Resource[float] = Field(600.0, gt=0, description="time limit for all ranks to start")
    update_seconds: Resource[float] = Field(1800.0, gt=0, description="time limit of one update")
    silence_seconds: Resource[float] = Field(
        120.0, gt=0, description="a rank that shows no sign of life for longer while it works is given up"
    )
    max_restarts: Resource[int] = Field(
        3,
        ge=0,
        description="times within an hour that the ranks are started anew, where one died or was given up, before the "
        "run stops",
    )
    compile: bool = Field(False, description="compile the model's layers; docs/concepts/learner.md says when it pays")
    lora: LoraSettings = Field(default_factory=LoraSettings)
    loss: AnyLoss = Field(
        default_factory=lambda: LOSS.make(LOSS.default), description="what an optimiser step minimises"
    )
    credit: AnyCredit = Field(
        default_factory=lambda: CREDIT.make(CREDIT.default),
        description="how per-turn rewards become per-token advantages",
    )
    sync: Resource[SyncSettings] = Field(default_factory=SyncSettings)
    _run_updates: int | None = PrivateAttr(None)

    @property
    def threads_on_cpu(self) -> int:
        return self.threads or max(1, int(self.cpus_per_rank))

    @model_validator(mode="after")
    def settings_fit_together(self) -> LearnerSettings:
        end = self.schedule_updates
        if self.schedule == "constant" and end is not None:
            raise ValueError(f"schedule=constant does not read schedule_updates={end}")
        if end is not None and (why := self.no_step_within(end)):
            raise ValueError(f"schedule_updates={end} {why}")
        low, high = self.logprob_gap_warn, self.logprob_gap_stop
        if low is not None and high is not None and low > high:
            raise ValueError(f"logprob_gap_warn={low} is above logprob_gap_stop={high}")
        if self.replay_batches:
            self._check_replay()
        return self

    def _check_replay(self) -> None:
        refused = f"replay_batches={self.replay_batches}"
        if not isinstance(self.loss, SamplerLoss) and not (self.loss.asks_sampler and self.credit.any_sampler):
            raise ValueError(
                f"{refused} learns from games of older weights, which loss.kind={LOSS.name_of(self.loss)} does not "
                "correct for: set loss.kind to decoupled"
            )
        method = CREDIT.name_of(self.credit)
        if isinstance(self.credit.critic_settings, UtteranceCriticSettings):
            raise ValueError(f"{refused} is for critics without a replay; credit.method={method} has its own")
        if self.credit.remembers:
            raise ValueError(
                f"{refused} does not go with a baseline of all games before, in which a game would count once more in "
                f"each of its updates: set {self.credit.remembers}"
            )
        if self.credit.by_labels:
            raise ValueError(
                f"{refused} does not go with credit.anchor=labels: labels are numbered anew in each batch; set "
                "credit.anchor to observation"
            )

    @property
    def steps(self) -> int:
        """Optimiser steps of an update."""
        return self.epochs * self.minibatches

    def no_step_within(self, updates: int) -> str | None:
        """Why none of so many updates would move the policy; None if one does."""
        critic = self.credit.critic_settings
        waits = critic.warmup_updates if critic is not None else 0
        first = f"warmup_updates={self.warmup_updates}" + (
            f" and credit.critic.warmup_updates={waits}" if waits else ""
        )
        falls = self.schedule != "constant"
        if updates > waits + self.warmup_updates * falls:
            return None
        return f"leaves nothing after {first}" + (f" for schedule={self.schedule}" if falls else "")

    def end_with(self, updates: int) -> None:
        """Schedules without an end of their own end with the run."""
        self._run_updates = updates

    def end(self, part: LearnerSettings | CriticSettings) -> int:
        """How many updates the schedule of `part` has."""
        end = part.schedule_updates or self._run_updates
        if end is None:
            raise ValueError(f"schedule={part.schedule} outside a run needs schedule_updates")
        return end


class EmbeddedSettings(Settings):
    """The project's own small policy, made from the game's language and cloned from scripted play."""

    hidden: int = Field(64, ge=8, description="width of the model")
    layers: int = Field(2, ge=1, description="number of layers")
    heads: int = Field(4, ge=1, description="attention heads")
    seed: int = Field(0, description="seed of the initial weights and of the cloned games")
    player: str = Field("mediocre", description="scripted player that is cloned")
    steps: int = Field(800, ge=0, description="cloning steps")
    games_per_step: int = Field(32, ge=1, description="fresh games in each cloning step")
    learning_rate: float = Field(8e-3, gt=0, description="AdamW step size (embeddings, head, norms), decaying to 0")
    matrix_learning_rate: float = Field(
        0.03, gt=0, description="Muon step size (matrices of the layers), decaying to 0"
    )
    belief_weight: float = Field(3.0, ge=0, description="weight of the auxiliary loss that predicts the game's secret")
