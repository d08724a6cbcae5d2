"""Runs of the command line: the demo as `make demo` starts it, with fewer updates, and the same with
learner and engine taking turns on one card.

A run stops by itself if a transfer of weights cannot be proved, if log-probs of engine and learner
are too far apart, or if anything dies; here it is also asked that it did not unlearn.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.card import needed
from benchmarks.gpu.runner import PATIENCE, ROOT

UPDATES = 6
SMALL = ("evaluation.episodes=128",)
ON_CPU = ("batch_episodes=16", "evaluation.episodes=32", "model.embedded.steps=40", "rollout.engine.cpu_cache_gib=0.1")
TURNS = ("rollout.share_cards=true", "rollout.engine.sleep=true", "learner.sync.transport=ipc")
SECONDS = 240  # of a run


def check(bench: Bench) -> None:
    needed(bench)
    small = SMALL if bench.on_card else ON_CPU
    with bench.part("the demo"):
        run(bench, "the demo", *small)
    if bench.on_card:
        turns(bench)


def turns(bench: Bench) -> None:
    with bench.part("taking turns on one card"):
        run(bench, "taking turns on one card", *SMALL, *TURNS, "rollout.engine.enforce_eager=true")


def run(bench: Bench, what: str, *settings: str) -> None:
    judge(bench, what, *train(bench, ("recipes/demo.yaml",), f"updates={UPDATES}", *settings))


def judge(bench: Bench, what: str, folder: Path, said: str) -> None:
    summary, _ = ended_well(bench, what, folder, said, UPDATES)
    before, after = summary["win_rate_before_interval"], summary["win_rate_after_interval"]
    if before is None:
        return bench.judge(False, f"{what}: it does not unlearn", "the policy before training was not measured")
    won = f"{summary['win_rate_before']:.0%}, then {summary['win_rate_after']:.0%} of {summary['held_out_games']} games"
    bench.judge(after[1] >= before[0], f"{what}: it does not unlearn", won)


def train(bench: Bench, recipes: Sequence[str], *settings: str, seconds: float = SECONDS) -> tuple[Path, str]:
    """The run's folder and what it printed; a run that fails is an error with its last line."""
    seconds *= PATIENCE[bench.device]
    output = bench.folder / f"runs-{len(list(bench.folder.iterdir()))}"
    command = [sys.executable, "-m", "cluster", "train", *recipes, f"output={output}", *settings]
    said, began = [], time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        limit = threading.Timer(seconds, process.kill)
        limit.start()
        for line in process.stdout:  # as it comes: the log of a check that is cut off has it too
            print(line, end="", file=sys.stderr, flush=True)
            said.append(line)
        limit.cancel()
    if process.returncode:
        ended = f"exit code {process.returncode}"
        if process.returncode == -signal.SIGKILL and time.monotonic() - began >= seconds:
            ended = f"it did not end within {seconds:.0f} s"
        last = [line.strip() for line in said if line.strip()][-1:]
        raise RuntimeError(f"{ended}: {''.join(last)}")
    (folder,) = output.iterdir()
    return folder, "".join(said)


def ended_well(bench: Bench, what: str, folder: Path, said: str, asked: int) -> tuple[dict, list[dict]]:
    """Its summary and its updates' metrics, after what is asked of any run."""
    summary = json.loads((folder / "summary.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if line["update"] > 0]
    bench.judge(len(updates) == asked, f"{what}: the run ends well", f"{len(updates)} updates")
    planned = next((line.strip() for line in said.splitlines() if "build" in line), "nothing")
    if bench.on_card:
        bench.judge("CUDA build" in planned, f"{what}: it is planned for the card", planned)
    else:
        bench.figure(f"{what}: its plan", planned)
    bench.judge(all(line["learner/applied"] for line in updates), f"{what}: every update moves the weights")
    gap = max(line["learner/logprob_gap_mean"] for line in updates if "learner/logprob_gap_mean" in line)
    bench.figure(f"{what}: largest mean difference of log-probs, engine and learner", f"{gap:.2g}")
    tensors = min(line["sync/tensors"] for line in updates)
    bench.judge(tensors > 0, f"{what}: tensors proved by their digests in every sync", f"{tensors:.0f}")
    seconds = {name: median(line[f"seconds/{name}"] for line in updates) for name in ("update", "learn", "sync")}
    bench.figure(f"{what}: seconds, medians", ", ".join(f"{name} {value:.2f}" for name, value in seconds.items()))
    return summary, updates
