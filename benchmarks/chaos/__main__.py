"""Break real runs in every way, and count what is lost.

    python -m benchmarks.chaos                        a round of faults; goes on where it was stopped
    python -m benchmarks.chaos --seed 1 --trials 60   others, and more of them
    python -m benchmarks.chaos --only raylet stop     those whose name has one of these words in it
    python -m benchmarks.chaos --only command --trials 100      Ctrl-C and SIGTERM at a hundred moments
    python -m benchmarks.chaos --processes 2          two trials at once, each in rooms of its own
    python -m benchmarks.chaos --tables               runs nothing: all that was recorded with today's settings

Records: benchmarks/records/chaos.json.xz. What a trial with something wrong left behind is kept in runs/chaos.
"""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.chaos.schedule import NEVER, ROUND, Trial, schedule, undisturbed
from benchmarks.chaos.table import page, recorded, wrong
from benchmarks.chaos.trial import processor, run
from benchmarks.lab.store import Store
from cluster.commands.command import positive

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "records" / "chaos.jsonl"
KEPT = ROOT / "runs" / "chaos"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=positive, default=ROUND, help="one round is every process with every mode")
    parser.add_argument("--only", nargs="*", default=[], help="trials whose name has one of these words in it")
    parser.add_argument("--processes", type=positive, default=1, help="trials at once")
    parser.add_argument("--tables", action="store_true", help="run nothing, show all that was recorded")
    asked = parser.parse_args()
    store = Store(RECORDS)
    if asked.tables:
        print(page(store, recorded(store, asked.only)))
        return
    try:
        trials = schedule(asked.seed, asked.trials, asked.only)
    except ValueError as error:
        parser.error(str(error))
    wanted = [*dict.fromkeys(undisturbed(trial.setup, processor()) for trial in trials if trial.exact), *trials]
    missing = store.missing(wanted)
    kept = {trial: KEPT / f"{asked.seed}-{wanted.index(trial):03d}" for trial in missing}
    try:  # undisturbed runs first: the others are held against them
        complete(store, [trial for trial in missing if trial.process == NEVER], kept, asked.processes)
        complete(store, [trial for trial in missing if trial.process != NEVER], kept, asked.processes)
    finally:
        if missing:
            store.pack()
    print(page(store, wanted))


def complete(store: Store, missing: Sequence[Trial], kept: dict[Trial, Path], processes: int) -> None:
    began, number = time.monotonic(), itertools.count(1)
    saving = threading.Lock()

    def recorded(trial: Trial) -> None:
        """In its own thread, so that those at work when the command is stopped are recorded, too."""
        record = run(trial, kept[trial], lambda figures: bool(wrong(store, trial, figures)))
        with saving:
            store.put(trial, record)
            done, found = next(number), ", ".join(wrong(store, trial, record.figures)) or "nothing wrong"
            left = (time.monotonic() - began) / done * (len(missing) - done) / 60
            print(f"{done}/{len(missing)} {trial.name}: {found}; {left:.0f} min left", flush=True)

    with ThreadPoolExecutor(processes) as pool:
        jobs = [pool.submit(recorded, trial) for trial in missing]
        try:
            for job in as_completed(jobs):
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)  # those at work come to their end


if __name__ == "__main__":
    main()
