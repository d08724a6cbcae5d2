"""How far back may groups reach? The contest's candidate with windows of fewer games, on seeds that are never reported.

    python -m benchmarks.window                  every run; goes on where it was stopped
    python -m benchmarks.window --tables         only what has been recorded

The window of a group is counted in games: 1,024 of them are 8 updates of 128 games, and 64 updates of 16 games, as in
the contest (benchmarks/contest.py), where most of them were played by weights that are long gone. Here ARIA with half
of its own return, positive, has windows of 1,024, 128 and 48 games, beside the same with nothing shared: in the
contest's games and sizes, at the step sizes that were tuned there, on seeds 94 to 97, which neither tuned nor reported
anything. This is a search: what it finds has to be shown on seeds from 132 on.

Records: benchmarks/records/window.json.xz.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.contest import GAMES, SIZES, reporting
from benchmarks.contest import RECORDS as TUNED
from benchmarks.lab.command import contest_parser
from benchmarks.lab.contest import estimate
from benchmarks.lab.pages import table
from benchmarks.lab.store import Store
from benchmarks.lab.trial import Trial, run
from benchmarks.report import quiet

WINDOWS = (1024, 128, 48)
CANDIDATE, WITHOUT = "aria, positive", "nothing shared, positive"
FIRST_SEED, SEEDS = 94, 4
RECORDS = Path(__file__).parent / "records" / "window.jsonl"
SETTING = "reward.shaper.intentions.aggregate.window"


def trials(tuned: Store, seeds: int) -> dict[tuple[str, str], list[Trial]]:
    """By game and method."""
    part = reporting(tuned)
    named = {method.name: method for method in part.methods}
    found = {}
    for game in GAMES:
        for name, settings in ((WITHOUT, ()), *((CANDIDATE, (f"{SETTING}={window}",)) for window in WINDOWS)):
            method = named[name]
            rate = part.best_rate(tuned, game, method)
            label = f"{name}, {settings[0].rpartition('=')[2]} games" if settings else name
            made = replace(method, name=label, settings=(*method.settings, *settings))
            found[game.name, label] = [
                Trial(game, made, rate, seed, seed, SIZES) for seed in range(FIRST_SEED, FIRST_SEED + seeds)
            ]
    return found


def page(store: Store, wanted: dict[tuple[str, str], list[Trial]]) -> str:
    rows = []
    for label in dict.fromkeys(label for _, label in wanted):
        cells, means = [], []
        for game in GAMES:
            records = [store.get(trial) for trial in wanted[game.name, label]]
            scores = [100 * record.late for record in records if record is not None]
            found = estimate(scores) if len(scores) > 1 else None
            cells.append("-" if found is None else f"{found.mean:.1f} ± {found.half:.1f}")
            means.append(None if found is None else found.mean)
        mean = "-" if None in means else f"{sum(means) / len(means):.1f}"
        rows.append([label, *cells, mean])
    head = ["method", *(game.name for game in GAMES), "mean of the games"]
    return f"**Score in the second half of the updates**, percent, {SEEDS} seeds\n\n{table(head, rows)}"


def main() -> None:
    parser = contest_parser("window", __doc__)
    parser.set_defaults(seeds=SEEDS)
    asked = parser.parse_args()
    quiet()
    wanted, store = trials(Store(TUNED), asked.seeds), Store(RECORDS, partial(run, to_the_end=True))
    if not asked.tables:
        in_turn = [trial for seed in zip(*wanted.values(), strict=True) for trial in seed]
        store.complete(in_turn, asked.processes, lambda text: print(text, flush=True))
    print(page(store, wanted))


if __name__ == "__main__":
    main()
