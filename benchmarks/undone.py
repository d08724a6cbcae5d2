"""Does a policy that has won stay so? Food preparation and the case study at a step size that is too large, on and on.

    python -m benchmarks.undone              everything; goes on where it was stopped
    python -m benchmarks.undone --tables     only what has been recorded

The methods with the paper's clip, two epochs of two minibatches (benchmarks/credit.py), at learning rate .001, with
the KL guard of the recipes and with none. A run is undone if its last three batches score less than half of its best
three in a row. Held-out games are played after the last update.

Records: benchmarks/records/undone.jsonl, one line a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.credit import CASE, HOMES, NTPO, POAD
from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import estimate
from benchmarks.lab.pages import table
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Game, Method, Record, Trial
from benchmarks.report import quiet

RECORDS = Path(__file__).parent / "records" / "undone.jsonl"
RATE, TURNS, BATCHES = 1e-3, 2000, 3
GAMES = tuple(replace(game, sizes=replace(game.sizes, steps=TURNS)) for game in (HOMES[0], CASE))


def unguarded(method: Method) -> Method:
    return Method(f"{method.name}, no guard", (*method.settings, "learner.loss.kl_guard=null"))


METHODS = tuple(made for method in (NTPO, POAD) for made in (method, unguarded(method)))


def trials(game: Game, method: Method, seeds: int) -> list[Trial]:
    return [Trial(game, method, RATE, seed, seed % 2, game.sizes) for seed in range(seeds)]


def undone(record: Record) -> bool:
    if record.failure:
        return True
    runs = np.convolve(record.outcomes, np.ones(BATCHES) / BATCHES, "valid")
    return bool(runs[-1] < runs.max() / 2)


def page(store: Store, seeds: int) -> str:
    rows = []
    for game in GAMES:
        for method in METHODS:
            found = [record for trial in trials(game, method, seeds) if (record := store.get(trial))]
            rows.append([game.name, method.name, *_figures(found)])
    return table(["game", "method", "undone", "held out", "lowest", "seeds"], rows)


def _figures(found: Sequence[Record]) -> list[object]:
    if not found:
        return ["-"] * 4
    finals = [record.final for record in found]
    return [sum(map(undone, found)), estimate(finals), f"{100 * min(finals):.0f}", len(found)]


def main() -> None:
    asked = contest_parser("undone", __doc__).parse_args()
    quiet()
    store = Store(RECORDS)
    if not asked.tables:
        pairs = [trials(game, method, asked.seeds) for game in GAMES for method in METHODS]
        wanted = [trial for seed in zip(*pairs, strict=True) for trial in seed]
        store.complete(wanted, asked.processes, lambda text: print(text, flush=True))
    print(page(store, asked.seeds))


if __name__ == "__main__":
    main()
