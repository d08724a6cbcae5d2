"""Seconds of a lab's run in two checkouts that take turns, and whether both learn the same.

    python -m benchmarks.run_seconds                    this checkout alone
    python -m benchmarks.run_seconds --beside FOLDER    and another one, for instance a worktree of an older commit

One process at a time plays and learns with a tiny policy in the code of its checkout; rounds go A B B A. Seconds are
of CPU time, by what they were spent on. Runs learn the same if all scores and all weights at the end are equal, bit
for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.lab.pages import table
from benchmarks.report import quiet
from benchmarks.rounds import spread

HERE = Path(__file__).parents[1]
GAME = "twenty_questions_full"
SETTINGS = "game.options.table=lmrl", "game.options.listed=false"
STEP, BATCH = 1e-3, 16
TIME_LIMIT_SECONDS = 1800  # of one run
STAGES = "play", "shape", "learn"


def one(updates: int, cloning_steps: int) -> dict:
    """In the code of whatever checkout this process imports."""
    import hashlib

    from benchmarks.lab.trainee import Trainee
    from benchmarks.lab.trial import Game, Method, Sizes, Trial, warm_start

    sizes = Sizes(updates=updates, batch=BATCH, held_out=0, cloning_steps=cloning_steps)
    method = Method("per-turn mean", ("learner.credit.baseline=turn",))
    trial = Trial(Game("158 objects", GAME, SETTINGS), method, STEP, 90, 0, sizes)
    trainee = Trainee(trial.config, warm_start(trial))
    trainee.update()  # what is made once is not counted
    trainee.clock.seconds.clear()
    scores = [trainee.update()["score"] for _ in range(updates)]
    digest = hashlib.sha256(b"".join(weight.detach().numpy().tobytes() for weight in trainee.model.parameters()))
    return {"seconds": trainee.clock.seconds, "learned": [*map(repr, scores), digest.hexdigest()]}


def run_in(checkout: Path, updates: int, cloning_steps: int) -> dict:
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--one", str(updates), str(cloning_steps)]
    env = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
    if ended.returncode:
        raise SystemExit(f"{checkout}: {ended.stderr.strip().splitlines()[-1][:200]}")
    return json.loads(ended.stdout.splitlines()[-1])


def page(found: dict[str, list[dict]], updates: int) -> str:
    rows, first = [], next(iter(found))
    for name, runs in found.items():
        sums = [sum(run["seconds"].values()) for run in runs]
        cells = [f"{spread([run['seconds'][stage] / updates for run in runs]).median:.3f}" for stage in STAGES]
        ratios = spread([sum(a["seconds"].values()) / b for a, b in zip(found[first], sums, strict=True)])
        rows.append(
            [name, *cells, f"{spread(sums).median / updates:.3f}"]
            + [f"{ratios.median:.2f} ({ratios.low:.2f}-{ratios.high:.2f})"]
        )
    learned = {json.dumps(run["learned"]) for runs in found.values() for run in runs}
    alike = "all learned the same, bit for bit" if len(learned) == 1 else f"{len(learned)} different results"
    return table(["CPU s/update", *STAGES, "all", "times as fast"], rows) + f"\n\n{alike}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run_seconds", description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="another checkout, which is to be compared with")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--cloning-steps", type=int, default=300, help="of the warm start; fewer win less")
    asked = parser.parse_args(arguments)
    checkouts = {"before": asked.beside.resolve(), "after": HERE} if asked.beside else {"this": HERE}
    found: dict[str, list[dict]] = {name: [] for name in checkouts}
    order = list(checkouts)
    for _ in range(asked.rounds):
        for name in order:
            found[name].append(run_in(checkouts[name], asked.updates, asked.cloning_steps))
        order.reverse()
    print(page(found, asked.updates))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        quiet()
        print(json.dumps(one(*map(int, sys.argv[2:]))))
    else:
        main()
