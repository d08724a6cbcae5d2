"""One run's whole configuration: each floor's settings in one tree.

A recipe is a YAML file of this shape; `key=value` on the command line overrides a
dotted key. Reading a config imports neither torch nor vllm nor ray.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from actors.settings import RolloutSettings
from cluster.recipe.loggers import LoggerSettings
from cluster.recipe.offline import OfflineSettings
from cluster.recipe.telemetry import TelemetrySettings
from envs.settings import GameSettings, Resource, Settings
from learners.credit.method import CREDIT
from learners.settings import EmbeddedSettings, LearnerSettings
from reward_service.settings import RewardSettings
from reward_service.shaper import SHAPERS


class ModelSettings(Settings):
    path: str = Field("embedded", description="'embedded', a Hugging Face name, or a local folder; of an adapter, too")
    revision: str | None = Field(None, description="revision of a Hugging Face model")
    download_seconds: Resource[float] = Field(
        7200.0,
        gt=0,
        description="time limit for every node to fetch a model of the Hugging Face hub, before all others",
    )
    trust_remote_code: bool = Field(False, description="run code that comes with the model")
    embedded: EmbeddedSettings = Field(default_factory=EmbeddedSettings)


class EvaluationSettings(Settings):
    episodes: int = Field(400, ge=1, description="held-out games before and after training")
    seed: int = Field(
        1_000_000,
        ge=1_000_000,
        lt=2**31,
        description="first seed of the held-out games; training stays below 1,000,000",
    )
    temperature: float | None = Field(
        None, gt=0, description="sampling temperature of held-out games; default: the one trained with"
    )
    every: int = Field(0, ge=0, description="also evaluate every this many updates; 0: only before and after")
    beside: Resource[bool | None] = Field(
        None,
        description="play these games while training goes on, with the weights of their update: only the next sync "
        "waits for them; default: with max_staleness above 0, where engines do not sleep. false: training waits",
    )


class CheckpointSettings(Settings):
    every: int = Field(10, ge=1, description="updates between checkpoints")
    keep: int = Field(2, ge=1, description="newest checkpoints kept, beside the best")


class SampleSettings(Settings):
    updates: int = Field(100, ge=1, description="updates, evenly over the run, whose games samples.jsonl keeps some of")
    episodes: int = Field(8, ge=0, description="games kept of each of these updates, for `parley report`; 0: none")


class RecordSettings(Settings):
    episodes: Literal["all", "none"] | Annotated[int, Field(ge=1)] = Field(
        "all",
        description="games that the run folder keeps whole, with tokens and credit: all, none, or so many of each "
        "update, as many that were of no use, and so many of each evaluation",
    )
    most_gib: float = Field(20.0, gt=0, description="disk for these games; beyond it the oldest go")


class RunConfig(Settings):
    name: str = Field(
        "run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="name of the run; part of its folder's name"
    )
    output: str = Field("runs", description="folder that holds the run folders (shared by all nodes of a cluster)")
    seed: int = Field(0, ge=0, lt=2**31, description="seed of the games, of sampling and of the batches")
    updates: int = Field(60, ge=1, le=10**9, description="learner updates in the whole run")
    batch_episodes: int = Field(128, ge=1, le=10**6, description="episodes that one update consumes")
    group_size: int = Field(
        1,
        ge=1,
        description="episodes of a batch that play one task, the same game each in its own way: what rloo, grpo, "
        "gigpo, hgpo, g2po, hcapo and bipace compare",
    )
    group_redraws: int = Field(
        0,
        ge=0,
        le=100,
        description="times that a group whose games all went alike is played anew on another task, before the batch is "
        "learned from (dynamic sampling)",
    )
    max_staleness: int = Field(
        1,
        ge=0,
        description="how many updates behind the learner an episode may have been started; 0: synchronous, "
        "and on CPUs the same bytes from the same seed",
    )
    gamma: float | None = Field(
        None,
        gt=0,
        le=1,
        description="discount per turn of a seat, of every part that does not say otherwise; default: each part's own",
    )
    game: GameSettings = Field(default_factory=GameSettings)
    model: ModelSettings = Field(default_factory=ModelSettings)
    rollout: RolloutSettings = Field(default_factory=RolloutSettings)
    learner: LearnerSettings = Field(default_factory=LearnerSettings)
    reward: RewardSettings = Field(default_factory=RewardSettings)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings)
    samples: SampleSettings = Field(default_factory=SampleSettings)
    record: RecordSettings = Field(default_factory=RecordSettings)
    loggers: LoggerSettings = Field(default_factory=LoggerSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    offline: OfflineSettings = Field(default_factory=OfflineSettings)

    @property
    def discounted(self) -> dict[str, Settings]:
        """The parts that have a gamma, by their keys."""
        intentions = getattr(self.reward.shaper, "intentions", None)
        parts = {
            "learner.credit": self.learner.credit,
            "reward.shaper": self.reward.shaper,
            "reward.shaper.intentions.aggregate": getattr(intentions, "aggregate", None),
        }
        return {key: part for key, part in parts.items() if hasattr(part, "gamma")}

    @model_validator(mode="after")
    def parts_have_one_discount(self) -> RunConfig:
        for part in self.discounted.values():
            if self.gamma is not None and "gamma" not in part.model_fields_set:
                part.gamma = self.gamma
        return self

    @model_validator(mode="after")
    def settings_fit_together(self) -> RunConfig:
        if self.batch_episodes < self.learner.ranks:
            raise ValueError(
                f"batch_episodes={self.batch_episodes} is smaller than learner.ranks={self.learner.ranks}: "
                "every rank needs an episode"
            )
        if self.batch_episodes % self.group_size:
            raise ValueError(
                f"batch_episodes={self.batch_episodes} is not a multiple of group_size={self.group_size}: a batch is "
                "whole groups"
            )
        if self.group_redraws and self.group_size == 1:
            raise ValueError(
                f"group_redraws={self.group_redraws} asks whether the games of a group differ, and with group_size=1 "
                "there is nothing to compare: set group_size"
            )
        transport, rank = self.learner.sync.transport, self.learner.lora.rank
        if transport == "adapter" and rank == 0:
            raise ValueError("learner.sync.transport=adapter needs learner.lora.rank above 0")
        if rank and transport not in ("auto", "adapter"):
            raise ValueError(f"learner.lora.rank={rank} syncs by adapter only, but learner.sync.transport={transport}")
        gpus = self.rollout.gpus_per_worker, self.learner.gpus_per_rank
        if transport in ("nccl", "ipc") and 0 in gpus:
            raise ValueError(
                f"learner.sync.transport={transport} moves weights between GPUs: rollout.gpus_per_worker and "
                "learner.gpus_per_rank cannot be 0"
            )
        engine = self.rollout.engine
        if engine.max_batched_tokens < engine.max_sequences:
            raise ValueError(
                f"rollout.engine.max_batched_tokens={engine.max_batched_tokens} is smaller than "
                f"rollout.engine.max_sequences={engine.max_sequences}: each sequence needs a token in a step"
            )
        if self.rollout.max_utterance_tokens >= engine.max_context:
            raise ValueError(
                f"rollout.max_utterance_tokens={self.rollout.max_utterance_tokens} leaves no room for a prompt in "
                f"rollout.engine.max_context={engine.max_context}"
            )
        if self.learner.offload_optimizer and self.learner.zero == 0:
            raise ValueError("learner.offload_optimizer needs learner.zero of 1, 2 or 3")
        if self.learner.offload_parameters and self.learner.zero != 3:
            raise ValueError(f"learner.offload_parameters needs learner.zero=3, not {self.learner.zero}")
        credit, method = self.learner.credit, CREDIT.name_of(self.learner.credit)
        shaper, kind = self.reward.shaper, SHAPERS.name_of(self.reward.shaper)
        if shaper.gives_advantages and method != "reinforce":
            otherwise = ", or with reward.shaper.gives=outcome" if "gives" in type(shaper).model_fields else ""
            raise ValueError(
                f"reward.shaper={kind} gives advantages, which learner.credit.method={method} would have to make of "
                f"rewards; it goes with learner.credit.method=reinforce{otherwise}"
            )
        if credit.by_labels and not shaper.gives_labels:
            raise ValueError(
                "learner.credit.anchor=labels needs reward.shaper=aria with reward.shaper.gives=outcome, which label "
                "what was voiced"
            )
        if shaper.reads_answers and not self.rollout.score_answers:
            raise ValueError(
                f"reward.shaper={kind} pays by how likely the policy finds the right answer, which is asked only with "
                "rollout.score_answers=true"
            )
        try:
            credit.check(self.batch_episodes, self.group_size, self.rollout.choose_listed)
        except ValueError as error:
            raise ValueError(f"learner.credit.method={method} {error}") from None
        if self.rollout.choose_listed and self.learner.attention not in ("auto", "sdpa", "eager"):
            raise ValueError(
                f"rollout.choose_listed=true needs learner.attention=sdpa: {self.learner.attention} does not keep "
                "listed actions apart"
            )
        if self.learner.router_replay:
            self._check_replay()
        return self

    def _check_overlong(self) -> None:
        overlong, longest = self.learner.credit.overlong, self.rollout.max_utterance_tokens
        if overlong is None:
            return
        if overlong.limit != longest:
            raise ValueError(
                f"learner.credit.overlong.limit={overlong.limit} is not rollout.max_utterance_tokens={longest}, where "
                "utterances are cut: set one to the other"
            )
        if self.reward.shaper.gives_advantages:
            raise ValueError(
                f"reward.shaper={SHAPERS.name_of(self.reward.shaper)} gives advantages, so learner.credit.overlong, "
                "which is a reward, is paid to nobody: set it to null"
            )

    def _check_replay(self) -> None:
        """What router replay does not go with, whatever the model."""
        engine, refused = self.rollout.engine, "learner.router_replay=true"
        if self.model.path == "embedded":
            raise ValueError(f"{refused}, but model.path=embedded has no experts to choose: set it to false")
        for scored in ("choose_listed", "score_answers"):
            if getattr(self.rollout, scored):
                raise ValueError(
                    f"{refused} replays what was sampled, and with rollout.{scored}=true other things are scored: set "
                    "one of them to false"
                )
        if engine.kind != "transformers" and not engine.prefix_caching:
            raise ValueError(
                f"{refused} needs rollout.engine.prefix_caching=true: vLLM keeps the experts it chose with its cache"
            )

    @model_validator(mode="after")
    def learner_fits_the_run(self) -> RunConfig:
        learner, context = self.learner, self.rollout.engine.max_context
        if learner.tokens_per_micro_batch < context:
            raise ValueError(
                f"learner.tokens_per_micro_batch={learner.tokens_per_micro_batch} is less than "
                f"rollout.engine.max_context={context}: a game that long could not be trained"
            )
        if learner.minibatches * learner.ranks > self.batch_episodes:
            raise ValueError(
                f"learner.minibatches={learner.minibatches} of batch_episodes={self.batch_episodes} are too small for "
                f"learner.ranks={learner.ranks}: every rank needs an episode in each"
            )
        critic = learner.credit.critic_settings
        for name, part in (("learner", learner), ("learner.credit.critic", critic)):
            if part is not None and part.schedule_updates is not None and part.schedule_updates < self.updates:
                raise ValueError(
                    f"{name}.schedule_updates={part.schedule_updates} is less than updates={self.updates}: the last "
                    "ones would change nothing"
                )
        if learner.schedule != "constant" and (why := learner.no_step_within(self.updates)):
            raise ValueError(f"updates={self.updates} {why}")
        if self.reward.shaper.gives_advantages and learner.credit.penalty:
            raise ValueError(
                f"reward.shaper={SHAPERS.name_of(self.reward.shaper)} gives advantages, so learner.credit.kl_penalty="
                f"{learner.credit.penalty:g} is paid to nobody; learner.loss.kl does not need rewards"
            )
        self._check_overlong()
        learner.end_with(self.updates)
        return self
