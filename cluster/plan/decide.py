"""The decision: from (settings, machine, model) to a plan that learners and engines both follow.

    engine     vLLM, but the plain sampler for a small embedded policy with a short context on a CPU
    device     a CPU build runs on the CPU; a CUDA build with cards on the cards
    seating    a card each where there are enough; else rank i and worker i share card i
    transport  adapter for LoRA, ipc on shared cards, nccl between cards, else through the nodes' memory
    dtype      one for both sides: bfloat16 if both are on GPUs, else float32
    memory     what every part takes; on a shared card that cannot hold both the engine sleeps while the
               learner works, and play rests meanwhile

Play loses nothing by that but time: every update is followed by a sync, which throws away all keys and values
anyway. Its episodes go on afterwards, and how stale they may be is still bounded by `max_staleness`.

What is set is obeyed, or refused in one line that names a setting. A setting that the line proposes was tried: with
it the same run is accepted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from cluster.errors import ConfigError
from cluster.plan import fitting, seating
from cluster.plan.machine import Machine
from cluster.plan.refusal import Refusal
from cluster.plan.shape import ModelShape
from cluster.recipe.config import RunConfig

MOST_TRIED = 400  # changes of a refused config
MOST_THREADS = 8  # of a rank: most of its work is cut into so few pieces
SMALL, SHORT = 30_000_000, 2048  # weights and context of a policy that the plain sampler plays faster on a CPU
Side = Literal["both", "play", "learn"]


class PlanError(ConfigError):
    """No plan. `change`: settings by dotted key with which there is one; empty if none is known."""

    def __init__(self, message: str, change: Mapping[str, Any]):
        super().__init__(message)
        self.change = dict(change)


@dataclass(frozen=True, slots=True)
class Plan:
    config: RunConfig  # nothing left open that both sides have to agree on
    machine: Machine
    side: Side
    seats: tuple[seating.Seat, ...]  # in the order of ranks, then of workers
    memory: fitting.Fit | None  # None: the model's shape is not known
    notes: tuple[str, ...] = field(default=())

    @property
    def transport(self) -> str:
        return self.config.learner.sync.transport

    @property
    def dtype(self) -> str:
        """The less exact of the two sides' types."""
        sides = {self.config.learner.dtype, self.config.rollout.engine.dtype}
        return "float32" if sides == {"float32"} else min(sides - {"float32"})


def plan(
    config: RunConfig,
    machine: Machine,
    shape: ModelShape | None = None,
    side: Side = "both",
    frozen: Mapping[str, ModelShape] | None = None,
    may_change: Set[str] | None = None,
) -> Plan:
    """The plan, or PlanError. `side`: whether the engines play, the learners learn, or both at once.
    `frozen`: shapes of the frozen players whose memory is to be counted. `may_change`: the settings that may be
    proposed; None: all."""
    rest = machine, shape, side, frozen or {}
    try:
        return _decide(config, *rest)
    except Refusal as no:
        change = _accepted(config, no, rest, may_change)
        none = no.otherwise if may_change is None else "; nothing that may change helps"
        raise PlanError(f"{no}{none}" if change is None else no.with_change(in_words(change)), change or {}) from None


def _accepted(config: RunConfig, no: Refusal, rest: tuple, may_change: Set[str] | None) -> dict[str, Any] | None:
    """The first change that leads to a plan: one that a refusal proposes, or that with what is proposed
    where it is refused in its turn, and so on."""
    waiting, tried = deque(no.changes), 0
    while waiting and tried < MOST_TRIED:
        change, tried = waiting.popleft(), tried + 1
        if may_change is not None and not change.keys() <= may_change:
            continue
        try:
            _decide(changed(config, change), *rest)
            return change
        except ValidationError:
            continue
        except Refusal as again:
            waiting.extend(change | further for further in again.changes if not further.keys() <= change.keys())
    return None


def changed(config: RunConfig, change: Mapping[str, Any]) -> RunConfig:
    """The config with other settings, by dotted key, read anew."""
    tree = config.model_dump()
    for key, value in change.items():
        *sections, name = key.split(".")
        place = tree
        for section in sections:
            place = place[section]
        place[name] = value
    return RunConfig.model_validate(tree)


def in_words(change: Mapping[str, Any]) -> str:
    def shown(value: Any) -> str:
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"

    return " ".join(f"{key}={shown(value)}" for key, value in change.items())


def _decide(
    config: RunConfig, machine: Machine, shape: ModelShape | None, side: Side, frozen: Mapping[str, ModelShape]
) -> Plan:
    learns, plays = side != "play", side != "learn"
    if config.rollout.engine.kind == "auto":
        config = changed(config, {"rollout.engine.kind": _engine(config, machine, shape)})
    few_cpus = _few_cpus(config, machine, learns, plays)
    try:
        learner_on, engine_on = _devices(config, machine, learns, plays)
        found = seating.seat(config, machine, learner_on and learns, engine_on and plays)
    except Refusal as no:
        raise no.and_also(few_cpus) from None
    if few_cpus is not None:
        if machine.cards or config.model.path == "embedded":
            raise few_cpus
        raise Refusal(f"no GPU is used, for {_no_card(machine)}", *few_cpus.changes).and_also(few_cpus)
    settings: dict[str, Any] = {
        "learner.gpus_per_rank": found.gpus_per_rank,
        "rollout.gpus_per_worker": found.gpus_per_worker,
        "rollout.share_cards": found.shared,
    }
    settings |= _types(config, learner_on or not learns, engine_on or not plays)
    settings["learner.sync.transport"] = _transport(config, machine, found, learns and plays)
    if learns and not learner_on:
        settings["learner.threads"] = _threads(config, machine, plays)
    settings["learner.attention"] = _attention(config, machine, learner_on, settings["learner.dtype"])
    eager = config.rollout.engine.enforce_eager
    settings["rollout.engine.enforce_eager"] = not engine_on if eager is None else eager
    resolved = changed(config, settings)
    fit = None
    if shape is None:
        settings |= fitting.without_arithmetic(resolved)
    else:
        fit = fitting.fit(resolved, machine, shape, learns, plays, frozen, found.seats)
        settings |= fit.settings
    return Plan(changed(config, settings), machine, side, found.seats, fit)


def _engine(config: RunConfig, machine: Machine, shape: ModelShape | None) -> str:
    engine, embedded = config.rollout.engine, config.model.path == "embedded"
    small = shape is not None and shape.parameters < SMALL and engine.max_context <= SHORT
    on_cpu = not machine.has_cuda or config.rollout.gpus_per_worker == 0
    return "transformers" if embedded and small and on_cpu and engine.tensor_parallel == 1 else "vllm"


def _few_cpus(config: RunConfig, machine: Machine, learns: bool, plays: bool) -> Refusal | None:
    rollout, learner = config.rollout, config.learner
    workers = rollout.least_workers
    wanted = workers * rollout.cpus_per_worker * plays + learner.ranks * learner.cpus_per_rank * learns
    if machine.cpus is None or wanted <= machine.cpus:
        return None
    processes = workers * plays + learner.ranks * learns
    share = max(0.1, int(machine.cpus / processes * 10) / 10)
    return Refusal(
        f"the run needs {wanted:g} CPUs ({rollout.workers_key}={workers}, learner.ranks={learner.ranks}) but "
        f"{'this machine' if len(machine.nodes) == 1 else 'the cluster'} has {machine.cpus:g}",
        {"rollout.cpus_per_worker": share, "learner.cpus_per_rank": share},
    )


def _threads(config: RunConfig, machine: Machine, plays: bool) -> int:
    """Of each rank on CPUs: where play waits for the learner it leaves all cores to it."""
    learner, rollout = config.learner, config.rollout
    cores = machine.cpus if len(machine.nodes) == 1 else None
    if learner.threads is not None or cores is None:
        return learner.threads_on_cpu
    playing = rollout.most_workers * rollout.cpus_per_worker if plays and config.max_staleness else 0.0
    return max(learner.threads_on_cpu, min(MOST_THREADS, int((cores - playing) / learner.ranks)))


def _devices(config: RunConfig, machine: Machine, learns: bool, plays: bool) -> tuple[bool, bool]:
    """Whether the learners and whether the engines are on GPUs."""
    asked = {"learner.gpus_per_rank": config.learner.gpus_per_rank} if learns else {}
    asked |= {"rollout.gpus_per_worker": config.rollout.gpus_per_worker} if plays else {}
    of_vllm = plays and config.rollout.engine.kind == "vllm"
    if machine.has_cuda:
        if of_vllm and config.rollout.gpus_per_worker == 0:
            raise Refusal(
                "rollout.gpus_per_worker=0, but the CUDA build is installed, whose vLLM cannot play on a CPU",
                {"rollout.gpus_per_worker": None},
                {"rollout.engine.kind": "transformers"},
            )
        return config.learner.gpus_per_rank != 0, config.rollout.gpus_per_worker != 0
    there = _no_card(machine)
    for key, value in asked.items():
        if value:
            raise Refusal(
                f"{key}={value:g}, but {there}",
                {key: None},
                all_open(config),
                after=", or make setup DEVICE=gpu" if machine.build == "cpu" else "",
            )
    if machine.build == "cuda" and of_vllm:
        raise Refusal(
            "the CUDA build is installed, whose vLLM cannot play on a CPU, but there is no card",
            {"rollout.engine.kind": "transformers"},
            all_open(config) | {"rollout.engine.kind": "transformers"},
            before="make setup DEVICE=cpu, or ",
        )
    if plays and config.rollout.engine.tensor_parallel > 1 and not of_vllm:
        raise Refusal(
            "rollout.engine.kind=transformers is one process, not rollout.engine.tensor_parallel="
            f"{config.rollout.engine.tensor_parallel}",
            {"rollout.engine.tensor_parallel": 1},
        )
    return False, False


def _no_card(machine: Machine) -> str:
    return "the CPU build is installed" if machine.build == "cpu" else "there is no card"


def all_open(config: RunConfig) -> dict[str, Any]:
    """What leaves device and transport to the plan."""
    return {
        "learner.gpus_per_rank": None,
        "rollout.gpus_per_worker": None,
        "rollout.share_cards": None,
        "rollout.engine.tensor_parallel": 1,
        "learner.sync.transport": "auto",
    }


def _types(config: RunConfig, learner_on: bool, engine_on: bool) -> dict[str, str]:
    """What is left open follows the other side where that is said, so that both round alike."""
    ours, theirs = config.learner.dtype, config.rollout.engine.dtype
    usual = "bfloat16" if learner_on and engine_on else "float32"
    if ours == theirs == "auto":
        ours = theirs = usual
    elif ours == "auto":
        ours = theirs if theirs != "float16" else usual
    elif theirs == "auto":
        theirs = ours
    return {"learner.dtype": ours, "rollout.engine.dtype": theirs}


def _attention(config: RunConfig, machine: Machine, on_gpu: bool, dtype: str) -> str:
    asked = config.learner.attention
    if config.learner.share_openings:
        if asked not in ("auto", "sdpa"):
            wrong = f"learner.attention={asked} computes every game by itself"
            raise Refusal(f"learner.share_openings=true: {wrong}", {"learner.attention": "sdpa"})
        if on_gpu and dtype != "bfloat16":
            wrong = f"on GPUs its kernel computes in bfloat16, not in {dtype}"
            raise Refusal(f"learner.share_openings=true: {wrong}", {"learner.share_openings": "false"})
    if asked == "varlen" and not (on_gpu and dtype == "bfloat16"):
        raise Refusal(
            f"learner.attention=varlen is a kernel for GPUs in bfloat16, not for {dtype} on "
            f"{'GPUs' if on_gpu else 'CPUs'}",
            {"learner.attention": "sdpa"},
        )
    if asked != "auto":
        return asked
    fast = on_gpu and machine.flash_attention and dtype == "bfloat16" and not config.rollout.choose_listed
    fast = fast and not config.learner.share_openings  # which it cannot
    return "flash_attention_2" if fast else "sdpa"


def _transport(config: RunConfig, machine: Machine, found: seating.Seating, sends: bool) -> str:
    """How weights travel. Where nothing is sent (`sends`), what any engine starts with."""
    asked, parallel = config.learner.sync.transport, config.rollout.engine.tensor_parallel
    across = "gloo" if parallel > 1 else "object_store"  # which does not reach the processes behind an engine's
    grows = not isinstance(config.rollout.workers, int)  # perhaps to other nodes
    one_node = len(machine.nodes) == 1 and not grows
    through_memory = "shared_memory" if one_node or not sends else across
    if not sends:
        return "adapter" if config.learner.lora.rank else through_memory
    every_worker_has_a_rank = config.rollout.least_workers <= config.learner.ranks  # on its card
    beside = found.shared and every_worker_has_a_rank
    between = bool(found.gpus_per_rank and found.gpus_per_worker) and not found.shared
    of_vllm = config.rollout.engine.kind == "vllm"
    if asked == "auto":
        if config.learner.lora.rank:
            return "adapter"
        return ("ipc" if beside else "nccl" if between else through_memory) if of_vllm else through_memory
    wrong = None
    if asked == "ipc" and not beside:
        wrong = "which hands weights over inside a card, but not every worker shares one with a rank"
    elif asked == "nccl" and found.shared:
        wrong = "but NCCL refuses two processes on one card, and here learners and engines share theirs"
    elif asked == "nccl" and not between:
        wrong = "which goes from card to card, but not both sides are on GPUs"
    elif asked == "shared_memory" and not one_node:
        wrong = f"which ends at the node, but {'rollout.workers may be on others' if grows else 'there are several'}"
    elif asked == "object_store" and parallel > 1:
        wrong = f"which does not reach an engine of rollout.engine.tensor_parallel={parallel}"
    if wrong:
        changes: Sequence[dict[str, Any]] = [{"learner.sync.transport": "auto"}, *_other_seating(asked)]
        raise Refusal(f"learner.sync.transport={asked}, {wrong}", *changes)
    return asked


def _other_seating(transport: str) -> Iterator[dict[str, Any]]:
    yield {"rollout.share_cards": transport == "ipc"}
