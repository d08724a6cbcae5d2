"""Who sits on which card.

    enough cards for all     a rank has one card, a worker `tensor_parallel` cards of one node
    enough for the larger    rank i and worker i share card i, half of it each
    fewer                    refused

Ray does the placing; what is planned here is what it will be asked for, and shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cluster.plan.machine import Machine
from cluster.plan.refusal import Refusal
from cluster.recipe.config import RunConfig

RANK = "learner rank"


@dataclass(frozen=True, slots=True)
class Seat:
    who: str
    node: int
    cards: tuple[int, ...]  # of the node


@dataclass(frozen=True, slots=True)
class Seating:
    gpus_per_rank: float
    gpus_per_worker: float
    shared: bool
    seats: tuple[Seat, ...] = ()


def seat(config: RunConfig, machine: Machine, learners: bool, engines: bool) -> Seating:
    """`learners`, `engines`: whether these want cards."""
    rollout, learner = config.rollout, config.learner
    ranks, workers, parallel = learner.ranks * learners, rollout.least_workers * engines, rollout.engine.tensor_parallel
    if not ranks and not workers:
        return Seating(0.0, 0.0, False)
    ours = learner.gpus_per_rank if learners else None
    theirs = rollout.gpus_per_worker if engines else None
    both = learners and engines
    if rollout.engine.kind == "transformers" and engines and parallel > 1:
        raise Refusal(
            f"rollout.engine.kind=transformers plays on one card, not on rollout.engine.tensor_parallel={parallel}",
            {"rollout.engine.tensor_parallel": 1},
        )
    parts = [part for part in (ours, theirs) if part is not None and part < 1]
    wholes = [whole for whole in (ours, theirs) if whole is not None and whole >= 1]
    if theirs is not None and theirs >= 1 and theirs != parallel:
        raise Refusal(
            f"rollout.gpus_per_worker={theirs:g}, but an engine of rollout.engine.tensor_parallel={parallel} plays on "
            f"{parallel}",
            {"rollout.gpus_per_worker": None},
            {"rollout.engine.tensor_parallel": int(theirs)},
        )
    apart = _apart(machine, ranks, workers, parallel)
    if both and (rollout.share_cards or (rollout.share_cards is None and not wholes and (parts or apart is None))):
        return _sharing(config, machine, ours, theirs, parts, wholes)
    if parts and both:
        key = "learner.gpus_per_rank" if ours is not None and ours < 1 else "rollout.gpus_per_worker"
        raise Refusal(
            f"{key}={parts[0]:g} is a part of a card, which the other side shares only with rollout.share_cards=true",
            {"rollout.share_cards": True},
            {key: None},
            {"learner.gpus_per_rank": None, "rollout.gpus_per_worker": None, "rollout.share_cards": None},
        )
    if apart is None:
        raise _too_few(config, machine, ranks, workers, f"{ranks + workers * parallel}")
    return Seating(float(learners), float(parallel * engines), False, apart)


def _sharing(config: RunConfig, machine: Machine, ours, theirs, parts: list[float], wholes: list[float]) -> Seating:
    ranks, workers, parallel = config.learner.ranks, config.rollout.least_workers, config.rollout.engine.tensor_parallel
    if not isinstance(config.rollout.workers, int):
        most = config.rollout.most_workers
        raise Refusal(
            f"learner ranks and {workers} to {most} rollout workers would have to share cards, which takes a fixed "
            "number of workers",
            {"rollout.workers": workers},
        )
    fewer = {"learner.gpus_per_rank": None, "rollout.gpus_per_worker": None}
    if parallel > 1:
        reason = f"rollout.engine.tensor_parallel={parallel} needs cards of its own"
        if not config.rollout.share_cards:
            raise _too_few(config, machine, ranks, workers, f"{ranks + workers * parallel}")
        raise Refusal(
            f"{reason}, but rollout.share_cards=true",
            {"rollout.share_cards": False},
            {"rollout.engine.tensor_parallel": 1},
        )
    if wholes or sum(parts) > 1:
        said = f"learner.gpus_per_rank={ours or 0:g} and rollout.gpus_per_worker={theirs or 0:g}"
        raise Refusal(
            f"a rank and its worker share a card, but {said} are more than one"
            if sum(wholes) + sum(parts) > 1
            else f"a rank and its worker share a card, but {said} leave one of them none of it",
            fewer,
            {"rollout.share_cards": None} | fewer,
        )
    if max(ranks, workers) > len(machine.cards):
        raise _too_few(config, machine, ranks, workers, f"{max(ranks, workers)}")
    ours = ours or (1 - theirs if theirs else 0.5)
    places = [(node, card) for node, holds in enumerate(machine.nodes) for card in range(len(holds.cards))]
    seats = [Seat(f"{RANK} {i}", places[i][0], (places[i][1],)) for i in range(ranks)]
    seats += [Seat(f"rollout worker {i}", places[i][0], (places[i][1],)) for i in range(workers)]
    return Seating(ours, theirs or 1 - ours, True, tuple(seats))


def _apart(machine: Machine, ranks: int, workers: int, parallel: int) -> tuple[Seat, ...] | None:
    """A card or more for each; None if there are too few."""
    free = [list(range(len(node.cards))) for node in machine.nodes]
    seats = []
    for worker in reversed(range(workers)):
        node = next((node for node in reversed(range(len(free))) if len(free[node]) >= parallel), None)
        if node is None:
            return None
        free[node], taken = free[node][:-parallel], free[node][-parallel:]
        seats.append(Seat(f"rollout worker {worker}", node, tuple(taken)))
    left = [(node, card) for node, cards in enumerate(free) for card in cards]
    if len(left) < ranks:
        return None
    return (*(Seat(f"{RANK} {i}", left[i][0], (left[i][1],)) for i in range(ranks)), *reversed(seats))


def _too_few(config: RunConfig, machine: Machine, ranks: int, workers: int, needed: str) -> Refusal:
    """Names the nearest smaller run that fits."""
    rollout, have = config.rollout, len(machine.cards)
    parallel = rollout.engine.tensor_parallel
    what = [f"learner.ranks={ranks}"] if ranks else []
    what += [f"{rollout.workers_key}={workers}"] if workers else []
    what += [f"rollout.engine.tensor_parallel={parallel}"] if parallel > 1 else []
    own = " of their own" if rollout.share_cards is False and ranks and workers else ""
    changes: list[dict[str, Any]] = []
    open_seats = {"learner.gpus_per_rank": None, "rollout.gpus_per_worker": None, "rollout.share_cards": None}
    given = {
        key: None
        for key, value in (
            ("learner.gpus_per_rank", config.learner.gpus_per_rank),
            ("rollout.gpus_per_worker", rollout.gpus_per_worker),
            ("rollout.share_cards", rollout.share_cards),
        )
        if value
    }
    if given or rollout.share_cards is False:
        changes.append(given or {"rollout.share_cards": None})
    if ranks and workers and rollout.share_cards is not False:
        if parallel > 1:
            changes += [{"rollout.engine.tensor_parallel": width} for width in range(parallel - 1, 0, -1)]
        smaller = {"learner.ranks": min(ranks, have)} if ranks > have else {}
        smaller |= {rollout.workers_key: min(workers, have)} if workers > have else {}
        changes += [smaller] if smaller else []
    for left in range(max(workers, 1) - 1, 0, -1):
        changes.append({rollout.workers_key: left})
    for left in range(max(ranks, 1) - 1, 0, -1):
        changes.append({"learner.ranks": left})
    if parallel > 1:
        changes += [{"rollout.engine.tensor_parallel": width} for width in range(parallel - 1, 0, -1)]
    changes.append({"learner.ranks": 1, rollout.workers_key: 1, "rollout.engine.tensor_parallel": 1} | open_seats)
    return Refusal(
        f"{' and '.join(what)} need {needed} cards{own}, but there {'is' if have == 1 else 'are'} {have}",
        *changes,
        otherwise="; no smaller run fits either: it takes a smaller model.path or larger cards",
    )
