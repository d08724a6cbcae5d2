"""Whether everything fits, who sleeps, and what is left for the engine's keys and values.

    own card       the engine takes `gpu_memory_share` of it; vLLM finds out itself what that leaves for the cache
    shared, awake  rank at work + engine + cache <= card
    shared, asleep rank at work + what an engine keeps <= card,  rank at rest + engine + cache <= card

On a shared card the cache's size is given to vLLM in bytes: its own profile would count what the rank does
meanwhile. Everything is compared with the smallest card, less what is held back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf
from typing import Any

from cluster.plan import memory
from cluster.plan.machine import GIB, Machine, Node
from cluster.plan.memory import Need
from cluster.plan.refusal import Refusal
from cluster.plan.seating import RANK, Seat
from cluster.plan.shape import ModelShape
from cluster.recipe.config import RunConfig

OWN_SHARE = 0.85  # of its own card, for an engine
UNPLANNED_SHARE = 0.4  # of a shared card, where the model's shape is not known
COMFORT = 1 / 8  # of the sequences asked for: with less cache than they need at full length the engine rather sleeps


@dataclass(frozen=True, slots=True)
class Fit:
    learner: Need | None  # of one rank
    engine: Need | None  # of one card of one worker
    frozen: float  # bytes of the frozen players in `engine`
    limit: float  # bytes that may be filled; 0: not known
    peak: float  # bytes of the fullest card (of a node's memory where there is none)
    settings: Mapping[str, Any]


def without_arithmetic(config: RunConfig) -> dict[str, Any]:
    """For a model whose shape is not known: what is safest."""
    engine, shared = config.rollout.engine, bool(config.rollout.share_cards)
    share = engine.gpu_memory_share or (UNPLANNED_SHARE if shared else OWN_SHARE)
    sleep = (shared and engine.kind == "vllm") if engine.sleep is None else engine.sleep
    return {"rollout.engine.sleep": sleep, "rollout.engine.gpu_memory_share": share}


def fit(
    config: RunConfig,
    machine: Machine,
    shape: ModelShape,
    learns: bool,
    plays: bool,
    frozen: Mapping[str, ModelShape],
    seats: Sequence[Seat] = (),
) -> Fit:
    beside = sum(memory.frozen_player(config, each) for each in frozen.values())
    rank = memory.learner(config, shape) if learns else None
    worker = memory.engine(config, shape, beside) if plays else None
    on_cards = bool(config.learner.gpus_per_rank and learns), bool(config.rollout.gpus_per_worker and plays)
    engine = config.rollout.engine
    if plays and learns and engine.sleep and engine.kind == "vllm" and not config.rollout.share_cards:
        raise Refusal(
            "rollout.engine.sleep=true is for a vLLM engine that shares its card with a learner rank",
            {"rollout.engine.sleep": None},
        )
    if plays and engine.kind == "vllm":
        _refuse_uneven(engine.tensor_parallel, shape)
    limit = memory.usable(machine.smallest_card)
    settings: dict[str, Any] = {"rollout.engine.sleep": bool(engine.sleep and learns)}
    peak = 0.0
    if config.rollout.share_cards:
        worker, peak, settings = _on_one_card(config, shape, rank, worker, beside, limit, machine)
    else:
        if on_cards[0]:
            peak = rank.total
            _refuse_beyond(limit, peak, f"a learner rank needs {_gib(peak)}", config, machine)
        if on_cards[1]:
            worker, share = _on_own_card(config, shape, worker, beside, limit, machine)
            peak = max(peak, worker.total)
            settings["rollout.engine.gpu_memory_share"] = share
    if plays and not on_cards[1]:
        cache = engine.cpu_cache_gib * GIB if engine.kind == "vllm" else _slots(config, shape)
        worker = replace(worker, cache=cache)
    beside_cards = None if on_cards[0] else rank, None if on_cards[1] else worker
    if on_cards[0] and (offloaded := memory.offloaded(config, shape)):
        beside_cards = Need(optimiser=offloaded), beside_cards[1]
    if on_cards[1] and engine.kind == "vllm" and settings["rollout.engine.sleep"]:
        each = memory.asleep(config, shape) / engine.tensor_parallel  # of one card, while it sleeps
        beside_cards = beside_cards[0], Need(weights=each)
    nodes = _workers_of(machine)
    if all(on for on, need in zip(on_cards, beside_cards, strict=True) if need is not None):
        nodes = [node for node in nodes if node.cards] or nodes
    _check_node(config, machine, nodes, *beside_cards, seats)
    if not any(on_cards):
        limit = memory.usable(_smallest(nodes))
        peak = _of_node(config, nodes, rank, worker, seats)
    return Fit(rank, worker, beside, limit, peak, settings)


def _refuse_uneven(parallel: int, shape: ModelShape) -> None:
    """Each part of an engine has as many heads; key heads may be the same for some parts."""

    def even(parts: int) -> bool:
        return shape.heads % parts == 0 and (shape.key_heads % parts == 0 or parts % shape.key_heads == 0)

    if not even(parallel):
        fewer = [{"rollout.engine.tensor_parallel": parts} for parts in range(parallel - 1, 0, -1) if even(parts)]
        heads = f"{shape.heads} heads and {shape.key_heads} key heads"
        raise Refusal(f"rollout.engine.tensor_parallel={parallel} does not divide the model's {heads} evenly", *fewer)


def _slots(config: RunConfig, shape: ModelShape) -> float:
    """The transformers engine's cache: a row for every sequence, and one for padding."""
    return memory.cache_of(config, shape, config.rollout.engine.max_sequences + 1)


def _caches(config: RunConfig, shape: ModelShape) -> tuple[float, float, float]:
    """Bytes: the least an engine starts with, what it is comfortable with, the most it can use."""
    engine = config.rollout.engine
    if engine.kind == "transformers":
        return (_slots(config, shape),) * 3
    if engine.gpu_cache_gib is not None:
        return (engine.gpu_cache_gib * GIB,) * 3
    return tuple(
        memory.cache_of(config, shape, n) for n in (1, max(1, COMFORT * engine.max_sequences), engine.max_sequences)
    )


def _on_one_card(
    config: RunConfig, shape: ModelShape, rank: Need, worker: Need, beside: float, limit: float, machine: Machine
) -> tuple[Need, float, dict[str, Any]]:
    engine, card = config.rollout.engine, machine.smallest_card
    least, comfortable, most = _caches(config, shape)
    if not limit:  # nobody knows how large the card is
        sleep = engine.sleep if engine.sleep is not None else engine.kind == "vllm"
        settings = {"rollout.engine.sleep": sleep, "rollout.engine.gpu_memory_share": UNPLANNED_SHARE}
        return replace(worker, cache=least), 0.0, settings
    awake, asleep = limit - rank.total - worker.total, limit - rank.at_rest - worker.total
    sleep = engine.sleep if engine.sleep is not None else engine.kind == "vllm" and awake < comfortable
    kept = worker.runtime + beside  # frozen players stay awake
    if sleep and rank.total + kept > limit:
        _refuse_beyond(limit, rank.total + kept, f"a learner rank needs {_gib(rank.total + kept)}", config, machine)
    room = asleep if sleep else awake
    needs = (rank.at_rest if sleep else rank.total) + worker.total + least
    _refuse_beyond(limit, needs, f"a learner rank and its engine need {_gib(needs)} together", config, machine)
    cache = min(most, room)
    if engine.gpu_memory_share is not None:
        given = engine.gpu_memory_share * card * GIB - worker.total
        _refuse_beyond(
            given,
            least,
            f"of rollout.engine.gpu_memory_share={engine.gpu_memory_share:g} an engine needs "
            f"{_gib(least)} for its cache",
            config,
            machine,
        )
        cache = min(cache, given)
    worker = replace(worker, cache=cache)
    peak = max(rank.total + kept, rank.at_rest + worker.total) if sleep else rank.total + worker.total
    settings = {"rollout.engine.sleep": sleep}
    if engine.kind == "vllm":
        settings["rollout.engine.gpu_cache_gib"] = floor(cache / GIB * 1000) / 1000
    share = engine.gpu_memory_share or min(1.0, ceil(worker.total / (card * GIB) * 100) / 100)
    return worker, peak, settings | {"rollout.engine.gpu_memory_share": share}


def _on_own_card(
    config: RunConfig, shape: ModelShape, worker: Need, beside: float, limit: float, machine: Machine
) -> tuple[Need, float]:
    engine, card = config.rollout.engine, machine.smallest_card * GIB
    least, _, _ = _caches(config, shape)
    if not limit:
        return replace(worker, cache=least), engine.gpu_memory_share or OWN_SHARE
    share = engine.gpu_memory_share or max(0.01, min(OWN_SHARE, floor((limit - beside) / card * 100) / 100))
    needs = worker.total + least
    given = share * card + beside
    _refuse_beyond(min(limit, given), needs, f"an engine needs {_gib(needs)}", config, machine)
    fixed = engine.kind == "transformers" or engine.gpu_cache_gib is not None
    return replace(worker, cache=least if fixed else given - worker.total), share


def _of_node(
    config: RunConfig, nodes: Sequence[Node], rank: Need | None, worker: Need | None, seats: Sequence[Seat]
) -> float:
    """Of the node that has most to hold. Ranks are packed onto as few nodes as can be."""
    ours, theirs = rank.total if rank else 0.0, worker.total if worker else 0.0
    ranks = config.learner.ranks
    spread = (ours * ranks + theirs * config.rollout.least_workers) / len(nodes)
    seated = Counter[int]()
    for seat in seats:
        seated[seat.node] += ours if seat.who.startswith(RANK) else theirs * len(seat.cards)
    packed = 0.0
    if not any(seat.who.startswith(RANK) for seat in seats):
        each, cpus = config.learner.cpus_per_rank, max((node.cpus or inf for node in nodes), default=inf)
        packed = ours * min(ranks, cpus // each if each else ranks)
    return max(spread, packed, ours, theirs, *seated.values())


def _workers_of(machine: Machine) -> list[Node]:
    """The nodes that take work: a cluster's head may have no CPUs to give."""
    return [node for node in machine.nodes if node.cards or node.cpus != 0] or list(machine.nodes)


def _smallest(nodes: Sequence[Node]) -> float:
    """GiB of the node that has least; 0: not known."""
    return min((node.gib or 0.0 for node in nodes), default=0.0)


def _check_node(
    config: RunConfig,
    machine: Machine,
    nodes: Sequence[Node],
    rank: Need | None,
    worker: Need | None,
    seats: Sequence[Seat],
) -> None:
    """What runs on CPUs, and what cards have given up, against the memory of one of these nodes."""
    has = _smallest(nodes)
    needs = _of_node(config, nodes, rank, worker, seats)
    if has and needs > memory.usable(has):
        who = [f"learner.ranks={config.learner.ranks}"] * (rank is not None)
        who += [f"{config.rollout.workers_key}={config.rollout.least_workers}"] * (worker is not None)
        raise Refusal(
            f"{' and '.join(who)} need {_gib(needs)} of memory, but a node has {has:.0f}", *_smaller(config, machine)
        )


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _refuse_beyond(limit: float, needs: float, reason: str, config: RunConfig, machine: Machine) -> None:
    if limit and needs > limit:
        raise Refusal(
            f"{reason}, but {_gib(limit)} can be had",
            *_smaller(config, machine),
            before="it fits with ",
            otherwise="; it takes a smaller model.path or a larger card",
        )


def _smaller(config: RunConfig, machine: Machine) -> Iterator[dict[str, Any]]:
    """Settings that make a run smaller: each alone, then more and more of them together."""
    singles = list(_single(config))
    yield from singles
    together: dict[str, Any] = {}
    for change in singles:
        together = together | change
        yield dict(together)
    cards = len(machine.cards)
    if config.rollout.share_cards and cards > 1:
        apart = {"learner.ranks": max(1, cards // 2), "rollout.workers": max(1, cards - cards // 2)}
        yield apart
        yield together | apart
    for ranks in range(config.learner.ranks + 1, cards + 1):
        yield together | {"learner.ranks": ranks}


def _single(config: RunConfig) -> Iterator[dict[str, Any]]:
    learner, engine = config.learner, config.rollout.engine
    if engine.sleep is False and config.rollout.share_cards:
        yield {"rollout.engine.sleep": None}
    if engine.gpu_cache_gib is not None:
        yield {"rollout.engine.gpu_cache_gib": None}
    if engine.gpu_memory_share is not None:
        yield {"rollout.engine.gpu_memory_share": None}
    if not learner.gradient_checkpointing:
        yield {"learner.gradient_checkpointing": True}
    if learner.tokens_per_micro_batch > engine.max_context:
        yield {"learner.tokens_per_micro_batch": engine.max_context}
    if learner.ranks > 1 and learner.zero < 3:
        yield {"learner.zero": 3}
    if learner.gpus_per_rank and not learner.offload_optimizer and not learner.lora.rank:
        yield {"learner.offload_optimizer": True} | ({"learner.zero": 2} if learner.zero == 0 else {})
    if engine.max_batched_tokens > max(2048, engine.max_sequences):
        yield {"rollout.engine.max_batched_tokens": max(2048, engine.max_sequences)}
    if engine.max_sequences > 8:
        yield {"rollout.engine.max_sequences": 8}
    if config.rollout.frozen and config.rollout.frozen_sequences > 1:
        yield {"rollout.frozen_sequences": 1}
    shortest = max(1024, config.rollout.max_utterance_tokens + 16)
    if engine.max_context > shortest:
        yield {"rollout.engine.max_context": shortest}
    if not learner.lora.rank:
        yield {"learner.lora.rank": 8, "learner.sync.transport": "auto"}
