"""Break real runs in every way, and count what is lost.

    python -m benchmarks.chaos                        a round of faults; goes on where it was stopped
    python -m benchmarks.chaos --seed 1 --trials 60   others, and more of them
    python -m benchmarks.chaos --only raylet stop     those whose name has one of these words in it
    python -m benchmarks.chaos --only command --trials 100      Ctrl-C and SIGTERM at a hundred moments
    python -m benchmarks.chaos --tables               only what has been recorded

Records: benchmarks/records/chaos.json.xz. What a trial with something wrong left behind is kept in runs/chaos.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.chaos.schedule import ROUND, schedule, undisturbed
from benchmarks.chaos.table import page, wrong
from benchmarks.chaos.trial import run
from benchmarks.lab.store import Store

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "records" / "chaos.jsonl"
KEPT = ROOT / "runs" / "chaos"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=ROUND, help="one round is every process with every mode")
    parser.add_argument("--only", nargs="*", default=[], help="trials whose name has one of these words in it")
    parser.add_argument("--tables", action="store_true", help="run nothing, show what has been recorded")
    asked = parser.parse_args()
    store, trials = Store(RECORDS), schedule(asked.seed, asked.trials, asked.only)
    wanted = [*dict.fromkeys(undisturbed(trial.setup) for trial in trials if trial.exact), *trials]
    missing = [] if asked.tables else store.missing(wanted)
    began = time.monotonic()
    try:
        for number, trial in enumerate(missing, start=1):
            kept = KEPT / f"{asked.seed}-{wanted.index(trial):03d}"
            record = run(trial, kept, lambda figures, trial=trial: bool(wrong(store, trial, figures)))
            store.put(trial, record)
            found = ", ".join(wrong(store, trial, record.figures)) or "nothing wrong"
            left = (time.monotonic() - began) / number * (len(missing) - number) / 60
            print(f"{number}/{len(missing)} {trial.name}: {found}; {left:.0f} min left", flush=True)
    finally:
        if missing:
            store.pack()
    print(page(store, wanted))


if __name__ == "__main__":
    main()
