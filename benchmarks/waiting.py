"""What staleness buys where games wait: whole runs against the closed form.

    python -m benchmarks.waiting [--quick]

One worker plays games of five turns, each of which waits log-normally long (median .3 s, sigma 1, at most 5 s), 64
to a batch, and learns from them: real runs by `parley train` at max_staleness 0, 1, 2, 4 and 8, with the same tasks.

A batch takes as long as its slowest game, M seconds. With staleness s the batches of s + 1 updates wait at the same
time, and nothing may begin earlier: its first token would be too old. So in the long run

    seconds of an update  =  (E[M] + learn + sync) / (s + 1),   or learn + sync where that is more

and no way of playing can be faster within the bound. Beside it stands a simulation of the same rule with the waits of
the very tasks that were played, which has the start, the end and the spread of M in it: a batch begins when the one
s + 1 before it was learned from, and batches are learned from in order.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import Say, run_alone
from benchmarks.waiting_game import waits
from cluster.run.ledger import training_seed

ROOT = Path(__file__).parents[1]
GAME = "benchmarks.waiting_game:WaitingParrot"
STALENESS, BATCH, SEED = (0, 1, 2, 4, 8), 64, 11
UPDATES, SHORT = 32, 16
TIME_LIMIT_SECONDS = 1200


def measure(quick: bool, say: Say) -> dict[str, Any]:
    updates, found = SHORT if quick else UPDATES, {}
    for staleness in (0, 8) if quick else STALENESS:
        say(f"a run of {updates} updates, max_staleness={staleness}")
        lines = run(staleness, updates)
        found[str(staleness)] = figures(lines, staleness)
    return {"updates": updates, "batch": BATCH, "slowest": slowest(updates), "runs": found}


def run(staleness: int, updates: int) -> list[dict[str, float]]:
    """One line of metrics.jsonl for each update."""
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        command = [sys.executable, "-m", "cluster", "train", "recipes/games/parrot.yaml", f"game.name={GAME}"]
        command += [f"updates={updates}", f"max_staleness={staleness}", f"batch_episodes={BATCH}", f"seed={SEED}"]
        command += ["rollout.engine.kind=transformers", "rollout.episodes_in_flight=2000", f"output={folder}"]
        command += ["evaluation.episodes=16", f"checkpoint.every={updates}"]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
        if ended.returncode:
            last = (ended.stderr or ended.stdout).strip().splitlines()[-1:]
            raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}: {''.join(last)}")
        (metrics,) = Path(folder).glob("*/metrics.jsonl")
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [line for line in lines if line["update"] > 0]


def figures(lines: Sequence[dict[str, float]], staleness: int) -> dict[str, Any]:
    ends = [0.0, *np.cumsum([line["seconds/update"] for line in lines])]
    own = float(np.median([line["seconds/learn"] + line["seconds/sync"] for line in lines]))
    simulated = simulate(staleness, len(lines), own)
    return {
        "learn_and_sync": own,
        "update": steady(ends, staleness),
        "whole": float(ends[SHORT]),
        "simulated_update": steady(simulated, staleness),
        "simulated_whole": float(simulated[SHORT]),
        "closed_form": max((np.mean(slowest(len(lines))) + own) / (staleness + 1), own),
        "outcome": float(np.mean([line["rollout/outcome"] for line in lines[-4:]])),
        "staleness": float(np.mean([line["rollout/staleness"] for line in lines])),
        "failures": sum(value for name, value in lines[-1].items() if name.startswith("failures/")),
    }


def steady(ends: Sequence[float], staleness: int) -> float:
    """Mean seconds of an update once the pipeline is full, over whole rounds of it, and before it runs empty: the last
    batches have nothing behind them."""
    between = [after - before for before, after in pairwise(ends)]
    first = staleness + 1
    rounds = max(1, (len(between) - first) // (staleness + 1))
    return float(np.mean(between[first : first + rounds * (staleness + 1)]))


def slowest(updates: int) -> list[float]:
    """Of each batch the seconds of its slowest game."""
    games = [sum(waits(training_seed(SEED, number))) for number in range(updates * BATCH)]
    return np.max(np.reshape(games, (updates, BATCH)), axis=1).tolist()


def simulate(staleness: int, updates: int, own: float) -> list[float]:
    """When each update ends; `own`: its seconds of learning and sync. The first entry is the start."""
    ends = [0.0]
    for batch, took in enumerate(slowest(updates)):
        begun = ends[max(0, batch - staleness)]
        ends.append(max(begun + took, ends[-1]) + own)
    return ends


def tables(found: dict[str, Any]) -> list[Table]:
    table = Table(title=f"games that wait: {found['batch']} to a batch, {np.mean(found['slowest']):.1f} s the slowest")
    for name in (
        "staleness",
        "update s",
        "simulated",
        "closed form",
        "times",
        f"{SHORT} updates s",
        "simulated",
        "times",
    ):
        table.add_column(name, justify="right")
    table.add_column("outcome")
    first = next(iter(found["runs"].values()))
    for staleness, each in found["runs"].items():
        table.add_row(
            staleness,
            *(f"{each[name]:.2f}" for name in ("update", "simulated_update", "closed_form")),
            f"{first['update'] / each['update']:.1f}",
            *(f"{each[name]:.1f}" for name in ("whole", "simulated_whole")),
            f"{first['whole'] / each['whole']:.1f}",
            f"{each['outcome']:.2f}",
        )
    return [table]


if __name__ == "__main__":
    run_alone("waiting", measure, tables)
