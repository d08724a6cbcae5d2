"""What a contest has decided: which methods go on from tuning, how many points there are, and who is ahead by how much.

Whoever is ahead is so against every baseline: the gain is over the one that is best on the mean of the games, and p is
the largest over all of them, each corrected for the number of methods (`strata`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.lab.contest import Contest
from benchmarks.lab.pages import NONE, Of, final_of, mean_of, table
from benchmarks.lab.store import Store
from benchmarks.lab.strata import corrected, half_width, stratified
from benchmarks.lab.trial import Game, Method, Record

FIRST = 5  # batches that tell the score of the warm start
HELD_OUT = "held out"
CRITERIA: dict[str, Of] = {HELD_OUT: final_of, "while learning": mean_of}


def tuned(contest: Contest, store: Store, game: Game, method: Method) -> list[Record]:
    """At the step size that was chosen, on tuning seeds; none before it is."""
    if store.missing(contest.tuning(store, game, method)):
        return []
    rate = contest.best_rate(store, game, method)
    return [store.get(trial) for trial in contest.tuning(store, game, method) if trial.rate == rate]


def worth(contest: Contest, store: Store, method: Method) -> list[float | None]:
    """Of each game, at the step size that was chosen."""
    found = [tuned(contest, store, game, method) for game in contest.games]
    return [contest.worth(records) if records else None for records in found]


Start = Callable[[Game, Method], float]  # what a policy is worth that does not learn, on a method's tasks


def gained(contest: Contest, store: Store, method: Method, start: Start) -> float | None:
    """By learning, on the mean of the games; None before it has been tuned in all of them."""
    found = worth(contest, store, method)
    if None in found:
        return None
    return float(np.mean([each - start(game, method) for each, game in zip(found, contest.games, strict=True)]))


def leading(contest: Contest, store: Store, among: Sequence[Method], most: int, start: Start) -> list[Method]:
    """Who gained most, of those that have been tuned in all games."""
    found = {method: gained(contest, store, method, start) for method in among}
    return sorted((each for each in among if found[each] is not None), key=lambda each: -found[each])[:most]


def ranking(contest: Contest, store: Store, start: Start) -> str:
    """Every method at its own step size, the best first."""
    rows = []
    for method in contest.methods:
        cells = [
            NONE if score is None else f"{100 * score:.1f} at {contest.best_rate(store, game, method):.2g}"
            for game, score in zip(contest.games, worth(contest, store, method), strict=True)
        ]
        mean = gained(contest, store, method, start)
        rows.append((mean, [method.name, *cells, NONE if mean is None else f"{100 * mean:+.1f}"]))
    rows.sort(key=lambda row: 1.0 if row[0] is None else -row[0])
    head = ["method", *(game.name for game in contest.games), "gained, mean of the games"]
    return (
        "**Score in the second half of the tuning runs**, percent, at the step size that is best; gained over a "
        "policy that does not learn\n\n" + table(head, [row for _, row in rows])
    )


def room(contest: Contest, store: Store, title: str = "What less noise is worth") -> str:
    """`contest` has two methods, of which the second has what others lack: what that is worth."""
    fewer, more = contest.methods
    rows = []
    for game in contest.games:
        found = [tuned(contest, store, game, method) for method in (fewer, more)]
        if not all(found):
            rows.append([game.name, *[NONE] * 6])
            continue
        start = np.mean([record.outcomes[:FIRST] for records in found for record in records])
        means, lates = ([np.mean([of(r) for r in records]) for records in found] for of in (mean_of, _late))
        rows.append(
            [game.name, f"{100 * start:.1f}"]
            + [f"{100 * each:.1f}" for each in (*means, *lates)]
            + [f"{100 * (lates[1] - lates[0]):+.1f}"]
        )
    ends = (f"{method.name}, second half" for method in contest.methods)
    head = ["game", "start", fewer.name, more.name, *ends, "points that exist"]
    return f"**{title}**, percent, on tuning seeds\n\n" + table(head, rows)


def _late(record: Record) -> float:
    return record.late


@dataclass(frozen=True)
class Row:
    """A method's gain, in points."""

    name: str
    games: list[float]
    mean: float
    half: float  # of the 95 % interval of the mean
    p: float

    @property
    def cells(self) -> list[str]:
        return [
            self.name,
            *(f"{each:+.1f}" for each in self.games),
            f"{self.mean:+.1f} ± {self.half:.1f}",
            f"{self.p:.4f}",
        ]


@dataclass(frozen=True)
class Verdict:
    """Over the best of some baselines, in pairs of equal seeds; the best gain first."""

    title: str
    games: list[str]
    rows: list[Row]

    def __str__(self) -> str:
        head = ["method", *self.games, "mean of the games", "p, corrected"]
        return f"{self.title}\n\n" + table(head, [row.cells for row in self.rows])


def verdict(
    contest: Contest,
    store: Store,
    seeds: int,
    baselines: Sequence[Method],
    criterion: str,
    tested: Sequence[Method] | None = None,
    chosen_among: int = 1,
) -> Verdict:
    """`tested`: None for all but the baselines. `chosen_among`: so many, by the same runs. Nothing before all have
    two seeds."""
    of = CRITERIA[criterion]
    named = [method.name for method in baselines]
    tested = [method for method in contest.methods if method.name not in named] if tested is None else tested
    scores = {}
    for method in (*tested, *baselines):
        by_game = [contest.records(store, game, method, seeds) for game in contest.games]
        scores[method.name] = [[of(record) for record in found] for found in by_game]
    count = min(len(found) for each in scores.values() for found in each)
    games = [game.name for game in contest.games]
    if count < 2:
        return Verdict(f"**Verdict, {criterion}**: not all have two seeds yet", games, [])
    over = {
        against: {
            method.name: [
                np.subtract(a[:count], b[:count]) for a, b in zip(scores[method.name], scores[against], strict=True)
            ]
            for method in tested
        }
        for against in named
    }
    best = max(named, key=lambda name: np.mean([np.mean(found[:count]) for found in scores[name]]))
    p = [corrected(each) for each in over.values()]
    rows = [
        Row(
            name,
            [100 * float(np.mean(each)) for each in found],
            100 * stratified(found)[0],
            100 * half_width(found),
            min(1.0, chosen_among * max(each[name] for each in p)),
        )
        for name, found in over[best].items()
    ]
    title = f"**Gain over {best}**, the best of {len(named)}, points, {criterion}, {count} seeds"
    return Verdict(title, games, sorted(rows, key=lambda row: -row.mean))
