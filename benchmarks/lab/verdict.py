"""What a contest has decided: which methods go on from tuning, how many points there are, and who is ahead by how much.

Whoever is ahead is so against every baseline: the gain is over the one that is best on the mean of the games, and p is
the largest over all of them, each corrected for the number of methods (`strata`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.lab.contest import Contest
from benchmarks.lab.pages import NONE, Of, final_of, mean_of, table
from benchmarks.lab.store import Store
from benchmarks.lab.strata import corrected, half_width, stratified
from benchmarks.lab.trial import Game, Method, Record

FIRST = 5  # batches that tell the score of the warm start
CRITERIA: dict[str, Of] = {"held out": final_of, "while learning": mean_of}


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


def leading(contest: Contest, store: Store, among: Sequence[Method], most: int) -> list[Method]:
    """The best on the mean of the games, of those that have been tuned in all of them."""
    found = {method: worth(contest, store, method) for method in among}
    whole = [method for method in among if None not in found[method]]
    return sorted(whole, key=lambda method: -np.mean(found[method]))[:most]


def ranking(contest: Contest, store: Store) -> str:
    """Every method at its own step size, the best first."""
    rows = []
    for method in contest.methods:
        scores = worth(contest, store, method)
        cells = [
            NONE if score is None else f"{100 * score:.1f} at {contest.best_rate(store, game, method):.2g}"
            for game, score in zip(contest.games, scores, strict=True)
        ]
        mean = None if None in scores else float(np.mean(scores))
        rows.append((mean, [method.name, *cells, NONE if mean is None else f"{100 * mean:.1f}"]))
    rows.sort(key=lambda row: -1.0 if row[0] is None else -row[0])
    head = ["method", *(game.name for game in contest.games), "mean of the games"]
    return "**Mean of all batches of the tuning seeds**, percent, at the step size that is best\n\n" + table(
        head, [row for _, row in rows]
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


def verdict(contest: Contest, store: Store, seeds: int, baselines: Sequence[Method], criterion: str) -> str:
    """Every method over the best of `baselines`, in pairs of equal seeds. Nothing before all have two seeds."""
    of = CRITERIA[criterion]
    scores = {}
    for method in contest.methods:
        by_game = [contest.records(store, game, method, seeds) for game in contest.games]
        scores[method.name] = [[of(record) for record in found] for found in by_game]
    count = min(len(found) for each in scores.values() for found in each)
    if count < 2:
        return f"**Verdict, {criterion}**: not all have two seeds yet"
    named = [method.name for method in baselines]
    over = {
        against: {
            name: [np.subtract(a[:count], b[:count]) for a, b in zip(each, scores[against], strict=True)]
            for name, each in scores.items()
            if name not in named
        }
        for against in named
    }
    best = max(named, key=lambda name: np.mean([np.mean(found[:count]) for found in scores[name]]))
    p = [corrected(each) for each in over.values()]
    means = {name: 100 * stratified(each)[0] for name, each in over[best].items()}
    rows = [
        [name, *(f"{100 * np.mean(each):+.1f}" for each in over[best][name])]
        + [f"{means[name]:+.1f} ± {100 * half_width(over[best][name]):.1f}", f"{max(each[name] for each in p):.4f}"]
        for name in sorted(means, key=lambda name: -means[name])
    ]
    head = ["method", *(game.name for game in contest.games), "mean of the games", "p, corrected"]
    title = f"**Gain over {best}**, the best of {len(named)}, points, {criterion}, {count} seeds"
    return f"{title}\n\n" + table(head, rows)
