"""Settings of the learner floor. Plain pydantic: no torch, deepspeed or ray."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PrivateAttr, model_validator

from envs.settings import Settings

REDUCE_BUCKET = 50_000_000  # weights whose gradients DeepSpeed reduces at once; on a card it holds room for them
Schedule = Literal["constant", "linear", "cosine"]


class LoraSettings(Settings):
    rank: int = Field(0, ge=0, description="rank of the adapter; 0 trains all weights")
    alpha: float = Field(16.0, gt=0, description="scale of the adapter")
    targets: list[str] = Field(
        default_factory=lambda: ["q_proj", "k_proj", "v_proj", "o_proj"], description="modules that get an adapter"
    )


class CreditSettings(Settings):
    """docs/concepts/credit.md says what each method computes. A field that the chosen method never reads
    has to stay at its default, so that nobody tunes a number that changes nothing."""

    method: Literal["reinforce", "rloo", "grpo", "gigpo", "gae", "twosome", "poad", "ntpo", "vtrace", "archer"] = Field(
        "reinforce", description="how per-turn rewards become per-token advantages"
    )
    gamma: float = Field(1.0, gt=0, le=1, description="discount between turns")
    gamma_w: float | None = Field(
        None, gt=0, le=1, description="ntpo: discount between the tokens of an utterance; default: gamma"
    )
    lambda_a: float = Field(0.95, ge=0, le=1, description="GAE's lambda between turns, of methods with a critic")
    lambda_w: float | None = Field(
        None,
        ge=0,
        le=1,
        description="GAE's lambda between the tokens of an utterance; default: 1 for poad and vtrace (poad's authors "
        "ran 0.95), lambda_a for ntpo",
    )
    baseline: Literal["none", "batch", "turn", "leave_one_out", "running"] = Field(
        "turn",
        description="reinforce: what is subtracted from the return: nothing, the batch mean, the mean at the same "
        "turn index, the mean of the other episodes, or a running mean over updates",
    )
    running_decay: float = Field(0.9, ge=0, lt=1, description="memory of the running baseline")
    group_std: bool = Field(True, description="grpo, gigpo: divide by the group's standard deviation")
    step_weight: float = Field(1.0, ge=0, description="gigpo: weight of the step advantage")
    anchor: Literal["observation", "labels"] = Field(
        "observation",
        description="gigpo: turns are in the same state if they were shown the same, or if the same intentions were "
        "voiced before them",
    )
    vtrace_step: Literal["token", "turn"] = Field("token", description="vtrace: what one importance ratio belongs to")
    rho_cap: float = Field(1.0, gt=0, description="vtrace: cap of the ratio that weighs a temporal difference")
    trace_cap: float = Field(1.0, gt=0, description="vtrace: cap of the ratio that carries corrections back")
    tau: float = Field(0.1, gt=0, le=1, description="archer: how far the slow critics follow in one step")
    kl_penalty: float = Field(
        0.0, ge=0, description="beta of the soft form: every token pays beta * (log pi - log reference)"
    )
    whiten: bool = Field(False, description="give a batch's advantages mean 0 and standard deviation 1 over tokens")

    @model_validator(mode="after")
    def method_reads_what_is_set(self) -> CreditSettings:
        readers = {
            "gamma_w": ("ntpo",),
            "lambda_a": ("gae", "twosome", "poad", "ntpo", "vtrace"),
            "lambda_w": ("poad", "ntpo", "vtrace"),
            "baseline": ("reinforce",),
            "running_decay": ("reinforce",),
            "group_std": ("grpo", "gigpo"),
            "step_weight": ("gigpo",),
            "anchor": ("gigpo",),
            "vtrace_step": ("vtrace",),
            "rho_cap": ("vtrace",),
            "trace_cap": ("vtrace",),
            "tau": ("archer",),
            "kl_penalty": ("reinforce", "rloo", "grpo", "gigpo", "gae", "poad", "ntpo", "vtrace"),
        }
        changed = {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default}
        for name, methods in readers.items():
            if name in changed and self.method not in methods:
                found, of = getattr(self, name), ", ".join(methods)
                raise ValueError(f"method={self.method} does not read {name}={found}, which is for {of}")
        if "running_decay" in changed and self.baseline != "running":
            raise ValueError(f"baseline={self.baseline} does not read running_decay={self.running_decay}")
        if self.lambda_w is not None and self.method == "vtrace" and self.vtrace_step == "turn":
            raise ValueError(f"vtrace_step=turn has no steps inside an utterance for lambda_w={self.lambda_w}")
        return self


class LossSettings(Settings):
    """docs/concepts/learner.md has the equations. A field that the chosen loss never reads has to stay at
    its default, as with credit methods."""

    kind: Literal["policy_gradient", "ppo", "decoupled"] = Field(
        "policy_gradient",
        description="policy_gradient: old tokens weighted by truncated pi/pi_sampler; ppo: clipped against the "
        "weights that sampled; decoupled: clipped against the weights at the start of the update, old tokens weighted",
    )
    clip_low: float = Field(0.2, gt=0, lt=1, description="ppo, decoupled: the ratio counts down to 1 - clip_low")
    clip_high: float = Field(0.2, gt=0, description="ppo, decoupled: the ratio counts up to 1 + clip_high")
    dual_clip: float | None = Field(
        None, gt=1, description="ppo, decoupled: ratio up to which a token of negative advantage counts; default: any"
    )
    token_mask: tuple[float, float] | None = Field(
        None, description="[low, high]: tokens of older weights whose pi/pi_sampler lies outside are dropped"
    )
    sequence_mask: tuple[float, float] | None = Field(
        None, description="[low, high]: so are games of one seat by the geometric mean of that ratio over their tokens"
    )
    correct_fresh: bool = Field(
        False,
        description="tokens of the present weights are weighted and masked too, by the log-probs that the engine "
        "stored: corrects for an engine that rounds differently from the trainer",
    )
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
    def kind_reads_what_is_set(self) -> LossSettings:
        defaults = type(self).model_fields
        for name in ("clip_low", "clip_high", "dual_clip"):
            if self.kind == "policy_gradient" and getattr(self, name) != defaults[name].default:
                raise ValueError(f"kind=policy_gradient does not read {name}={getattr(self, name)}")
        if self.kl == 0 and self.kl_estimator != defaults["kl_estimator"].default:
            raise ValueError(f"kl=0 does not read kl_estimator={self.kl_estimator}")
        for name in ("token_mask", "sequence_mask"):
            bounds = getattr(self, name)
            if bounds is not None and not 0 <= bounds[0] <= 1 <= bounds[1]:
                raise ValueError(f"{name}={list(bounds)} has to lie around 1, the ratio of fresh tokens")
        return self


class ReplaySettings(Settings):
    """What archer's critics learn from. The defaults are what its authors ran in Twenty Questions."""

    turns: int = Field(10_000, ge=1, description="archer: newest turns that are kept")
    steps: int = Field(20, ge=1, description="archer: critic steps after each update")
    draws: int = Field(256, ge=1, description="archer: turns drawn for each critic step")


class CriticSettings(Settings):
    """The critic of credit methods that need one; the others make none."""

    states: Literal["policy", "base"] = Field(
        "policy", description="whose hidden states it reads: the policy's, or those of the weights the run started from"
    )
    replay: ReplaySettings = Field(default_factory=ReplaySettings)
    learning_rate: float = Field(1e-3, gt=0, description="AdamW step size of the critic")
    schedule: Schedule = Field("constant", description="how its step size falls")
    schedule_updates: int | None = Field(
        None, ge=1, description="updates by which its step size has fallen to 0; default: all of the run's"
    )
    epochs: int = Field(4, ge=1, description="critic steps on each batch")
    gradient_clip: float = Field(1.0, gt=0, description="largest gradient norm of the critic")
    value_clip: float | None = Field(
        None, gt=0, description="how far one update may profit from moving a value; POAD's authors ran 0.2"
    )
    warmup_updates: int = Field(
        0, ge=0, description="first updates in which only the critic learns and the policy stays as it is"
    )


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
        description="largest gap allowed: in float32 of any log-prob, default 1e-4; in half precision of the mean, as "
        "a share of the log-probs' spread, default 0.1 (0.25 of less than 64 tokens)",
    )
    bucket_mib: int = Field(256, ge=1, description="memory for weights in transit at a time, MiB")


class LearnerSettings(Settings):
    ranks: int = Field(1, ge=1, description="DeepSpeed ranks, each a Ray actor")
    cpus_per_rank: float = Field(1.0, ge=0, description="CPUs each rank reserves from Ray")
    gpus_per_rank: float | None = Field(
        None, ge=0, le=1, description="GPUs each rank reserves from Ray; default: 1 where there are GPUs, or its share"
    )
    zero: Literal[0, 1, 2, 3] = Field(2, description="DeepSpeed ZeRO stage")
    offload_optimizer: bool = Field(False, description="keep optimiser state in CPU memory")
    offload_parameters: bool = Field(False, description="keep weights in CPU memory while no layer needs them; ZeRO-3")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="compute type; auto: bfloat16 if learner and engine are on GPUs, else float32"
    )
    learning_rate: float = Field(3e-4, gt=0, description="AdamW step size")
    betas: tuple[float, float] = Field((0.9, 0.999), description="AdamW moment decays")
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
    gradient_clip: float = Field(1.0, gt=0, description="largest gradient norm")
    tokens_per_micro_batch: int = Field(
        4096, ge=16, description="tokens packed into one forward pass; bounds activation memory"
    )
    gradient_checkpointing: bool = Field(False, description="recompute activations in the backward pass")
    router_replay: bool = Field(
        False, description="models of experts: send each token to the experts that the engine sent it to"
    )
    attention: Literal["auto", "sdpa", "varlen", "eager", "flash_attention_2"] = Field(
        "auto",
        description="attention kernels; auto: flash_attention_2 on GPUs that have it, else sdpa; varlen: torch's own "
        "flash attention over packed sequences, on GPUs; eager: the plain formula, to compare with",
    )
    loss_aggregation: Literal["token", "turn", "episode"] = Field(
        "episode", description="what is averaged: tokens, turns or episodes"
    )
    importance_cap: float = Field(2.0, ge=1, description="cap of the weight pi/pi_sampler on tokens from older weights")
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
    start_seconds: float = Field(600.0, gt=0, description="time limit for all ranks to start")
    update_seconds: float = Field(1800.0, gt=0, description="time limit of one update")
    compile: bool = Field(False, description="compile the model's layers; docs/concepts/learner.md says when it pays")
    lora: LoraSettings = Field(default_factory=LoraSettings)
    loss: LossSettings = Field(default_factory=LossSettings)
    credit: CreditSettings = Field(default_factory=CreditSettings)
    critic: CriticSettings = Field(default_factory=CriticSettings)
    sync: SyncSettings = Field(default_factory=SyncSettings)
    _run_updates: int | None = PrivateAttr(None)

    @model_validator(mode="after")
    def settings_fit_together(self) -> LearnerSettings:
        if self.loss.kind == "ppo" and self.importance_cap != type(self).model_fields["importance_cap"].default:
            raise ValueError(f"loss.kind=ppo does not read importance_cap={self.importance_cap}; decoupled does")
        for name, part, first in (("", self, self.warmup_updates), ("critic.", self.critic, 0)):
            end = part.schedule_updates
            if part.schedule == "constant" and end is not None:
                raise ValueError(f"{name}schedule=constant does not read {name}schedule_updates={end}")
            if end is not None and end <= first:
                raise ValueError(f"{name}schedule_updates={end} leaves nothing after warmup_updates={first}")
        self._check_critic()
        low, high = self.logprob_gap_warn, self.logprob_gap_stop
        if low is not None and high is not None and low > high:
            raise ValueError(f"logprob_gap_warn={low} is above logprob_gap_stop={high}")
        return self

    def _check_critic(self) -> None:
        """The settings of the one kind of critic are not read by the other."""
        critic, plain, method = self.critic, CriticSettings(), self.credit.method
        if method != "archer":
            for name in ReplaySettings.model_fields:
                if (found := getattr(critic.replay, name)) != getattr(plain.replay, name):
                    raise ValueError(f"credit.method={method} does not read critic.replay.{name}={found}; archer does")
            return
        if critic.states != "base":
            raise ValueError(
                f"credit.method=archer needs critic.states=base, not {critic.states}: it learns from states of past "
                "updates, and those of a moving policy go stale"
            )
        for name, instead in (("epochs", "critic.replay.steps"), ("value_clip", "slow copies (credit.tau)")):
            if (found := getattr(critic, name)) != getattr(plain, name):
                raise ValueError(f"credit.method=archer does not read critic.{name}={found}; it has {instead}")

    @property
    def corrects_fresh(self) -> bool:
        return self.loss.correct_fresh

    @property
    def steps(self) -> int:
        """Optimiser steps of an update."""
        return self.epochs * self.minibatches

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
