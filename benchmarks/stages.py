"""Stages: where the seconds of an update go in a whole real run.

The demo recipe is trained for a few updates by the command line, once with max_staleness 0
(workers rest while the learners update), once with 1 (they play the next batch meanwhile), and
once more with 1 and rewards by intentions, and its metrics.jsonl is read:

    collect    the loop waits for the batch's episodes
    shape      the learner waits for rewards
    learn      the learners update
    sync       pause, transfer, probe, resume
    rest       the loop's other stages: samples, records, checkpoints

Beside the loop's own stages stands how long the engine was at work. With max_staleness 0
that is inside `collect`; with 1 it runs through `learn` and `shape` too, and `overlap` is
the time in which it did: engine + learn + sync - update, if that is above 0.

Means, not medians: with max_staleness 1 two batches are in play together, so their ends
fall together and long and short updates take turns. The first updates, in which everything
is warmed up, and the last two, which have nothing more to play and evaluate, are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table

from benchmarks.games import RECIPE
from benchmarks.report import Say, run_alone

STAGES = ("collect", "shape", "learn", "sync", "rest")
UPDATES, WARM_UP, WIND_DOWN = 40, 2, 2
RUNS = ((0, "outcome"), (1, "outcome"), (1, "aria"))  # max_staleness, reward.shaper
TIME_LIMIT_SECONDS = 900


def measure(quick: bool, say: Say) -> dict[str, Any]:
    updates = 8 if quick else UPDATES
    results = {}
    for staleness, shaper in RUNS:
        settings = f"max_staleness={staleness} reward.shaper={shaper}"
        say(f"a run of {updates} updates, {settings}")
        results[settings] = stages_of(run([f"updates={updates}", *settings.split()]))
    return {"recipe": "demo", "runs": results}


def run(settings: list[str]) -> list[dict[str, float]]:
    """One line of metrics.jsonl for each update."""
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder:
        command = [sys.executable, "-m", "cluster", "train", str(RECIPE)]
        command += [*settings, "evaluation.episodes=16", f"output={folder}"]
        try:
            ended = subprocess.run(
                command, cwd=RECIPE.parent.parent, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{' '.join(command)} took more than {TIME_LIMIT_SECONDS} s") from None
        if ended.returncode:
            last = (ended.stderr or ended.stdout).strip().splitlines()[-1:]
            raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}: {''.join(last)}")
        (metrics,) = Path(folder).glob("*/metrics.jsonl")
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [line for line in lines if line["update"] > 0]


def stages_of(lines: list[dict[str, float]]) -> dict[str, Any]:
    kept = lines[WARM_UP - 1 : -WIND_DOWN]  # the first only says how long the engine had worked before
    seconds: dict[str, list[float]] = {name: [] for name in ("update", *STAGES, "engine", "overlap")}
    for before, line in pairwise(kept):
        update = line["seconds/update"]
        own = {name: line[f"seconds/{name}"] for name in STAGES if name != "rest"}
        own["rest"] = update - sum(own.values())
        engine = engine_seconds(line) - engine_seconds(before)
        overlap = max(0.0, engine + own["learn"] + own["sync"] - update)
        for name, value in {"update": update, **own, "engine": engine, "overlap": overlap}.items():
            seconds[name].append(value)
    whole = sum(seconds["update"])
    return {
        "updates": len(seconds["update"]),
        "episodes_per_update": lines[-1]["rollout/episodes"],
        "episodes_per_second": sum(line["rollout/episodes"] for line in kept[1:]) / whole,
        "tokens_per_second": sum(line["rollout/tokens"] for line in kept[1:]) / whole,
        "engine_tokens_per_second": lines[-1]["fleet/tokens_per_busy_second"],
        "prefix_cache_hit_rate": lines[-1]["fleet/prefix_cache_hit_rate"],
        "seconds": {name: fmean(each) for name, each in seconds.items()},
        "share": {name: sum(each) / whole for name, each in seconds.items()},
        "samples": seconds,
    }


def engine_seconds(line: dict[str, float]) -> float:
    """That the engines have been at work since the start."""
    return line["fleet/generated_tokens"] / line["fleet/tokens_per_busy_second"]


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title="Stages: one update of the demo, 128 episodes", title_justify="left")
    table.add_column("")
    for settings in result["runs"]:
        table.add_column(f"{settings}, s", justify="right")
        table.add_column("share", justify="right")
    for name in ("update", *STAGES, "engine", "overlap"):
        cells = []
        for one in result["runs"].values():
            cells += [f"{one['seconds'][name]:.2f}", f"{one['share'][name]:.1%}"]
        table.add_row(name, *cells, end_section=name in ("update", "rest", "overlap"))
    for label, key in (("episodes/s", "episodes_per_second"), ("tokens/s", "tokens_per_second")):
        speeds = (f"{one[key]:,.0f}" for one in result["runs"].values())
        table.add_row(label, *(cell for speed in speeds for cell in (speed, "")))
    return [table]


if __name__ == "__main__":
    run_alone("stages", measure, tables)
