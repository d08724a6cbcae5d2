"""Runs of an older word-credit contest that had won and came undone at learning rate .001, by the learner of today.

    python -m benchmarks.undone              everything; goes on where it was stopped
    python -m benchmarks.undone --tables     only what has been recorded

They are the runs in benchmarks/records/credit.json.xz that had the KL guard, which then left out the steps after one
that went too far and not that one, that scored .3 or more in three batches in a row, and less than half of that in the
last three. Each has the same warm start, seed, tasks and settings again. Records: benchmarks/records/undone.json.xz,
one line a run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.lab.command import contest_parser
from benchmarks.lab.pages import table
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Game, Method, Record, Sizes, Trial
from benchmarks.report import quiet

THEN = Path(__file__).parent / "records" / "credit.jsonl"
NOW = THEN.with_name("undone.jsonl")
RATE, BATCHES, WON = 1e-3, 3, 0.3
GUARD = "learner.loss.kl_guard=0.02"


def best_and_last(record: Record) -> tuple[float, float]:
    """Means of three batches."""
    runs = np.convolve(record.outcomes, np.ones(BATCHES) / BATCHES, "valid")
    return float(runs.max()), float(runs[-1])


def undone(record: Record) -> bool:
    if len(record.outcomes) < 2 * BATCHES:
        return bool(record.failure)
    best, last = best_and_last(record)
    return best >= WON and last < best / 2


def trial_of(record: Record) -> Trial:
    """The trial that a record is of."""
    told = {name: _frozen(value) for name, value in record.trial.items()}
    game, sizes = dict(told["game"]), Sizes(**told["sizes"])
    if game.get("sizes"):
        game["sizes"] = Sizes(**game["sizes"])
    return Trial(**told | {"game": Game(**game), "method": Method(**told["method"]), "sizes": sizes})


def _frozen(value):
    if isinstance(value, dict):
        return {name: _frozen(each) for name, each in value.items()}
    return tuple(value) if isinstance(value, list) else value


def guarded(then: Store) -> list[Record]:
    """All that could have come undone."""
    return [
        record
        for record in then.records.values()
        if record.trial["rate"] == RATE and GUARD in record.trial["method"]["settings"]
    ]


def won(record: Record) -> bool:
    return len(record.outcomes) >= BATCHES and best_and_last(record)[0] >= WON


def lost(then: Store) -> list[Record]:
    return sorted(filter(undone, guarded(then)), key=lambda record: trial_of(record).name)


def page(then: Path, now: Store) -> str:
    rows, again_undone, count = [], 0, 0
    for record in lost(Store(then)):
        trial, cells = trial_of(record), ["-"] * 3
        if again := now.get(trial):
            count, again_undone = count + 1, again_undone + undone(again)
            cells = [*(f"{100 * score:.0f}" for score in best_and_last(again)), "undone" if undone(again) else ""]
        was = (f"{100 * score:.0f}" for score in best_and_last(record))
        rows.append([trial.game.name, trial.method.name, trial.seed, *was, *cells])
    head = ["game", "method", "seed", "best then", "last then", "best now", "last now", ""]
    all_then = guarded(Store(then))
    of = f"{sum(map(won, all_then))} that had won, among {len(all_then)} runs"
    told = f"undone then: {len(rows)} of the {of}; now: {again_undone} of the {count} that were run again"
    return f"{table(head, rows)}\n\n{told}"


def main() -> None:
    asked = contest_parser("undone", __doc__).parse_args()
    quiet()
    now = Store(NOW)
    if not asked.tables:
        trials = [trial_of(record) for record in lost(Store(THEN))]
        now.complete(trials, asked.processes, lambda text: print(text, flush=True))
    print(page(THEN, now))


if __name__ == "__main__":
    main()
