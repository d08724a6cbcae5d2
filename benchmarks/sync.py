"""Weight sync: seconds by transport and model size, and where they go.

Real LearnerGroup and Fleet on a private Ray cluster; vLLM engines receive. WeightSync.publish
itself is measured, through stopwatches around the fleet and the learners that it calls:

    pause      until no engine takes a step any more: at most the step under way
    transfer   learners.send_weights: gather, write, tell, read, load, drop the caches, and digests
               of every tensor as it is sent, as it arrives and as it is held
    receipts   asking every engine for its receipt
    probe      the game's openings scored by trainer and engines, as at every probe_every-th sync
    resume     the answer to the call

What digests cost is measured apart: `digest` is one pass over all tensors that travel, and a
transfer makes three, one by the trainer and two by the engine.

Once with an idle engine, and once with one that plays: then requests are in flight when it
is paused. Their keys and values are dropped with the old weights, and the first steps after
that, which are the probe's, compute them again beside it.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from safetensors.torch import load_file

from actors.fleet.fleet import Fleet
from actors.transport.digest import digest, numbers_of
from benchmarks.games import demo, tickets, worker_spec
from benchmarks.models import SIZES, parameters_of, untrained
from benchmarks.private_ray import private_ray
from benchmarks.report import Say, run_alone, short, spread_of
from benchmarks.rounds import spread
from cluster.recipe.config import RunConfig
from cluster.run.policy import check_model
from cluster.run.probe_texts import ProbeTexts
from cluster.run.sync import WeightSync
from learners.group import LearnerGroup

TRANSPORTS = {
    "shared_memory": (),
    "object_store": (),
    "adapter": ("learner.lora.rank=8",),
}
STEPS = {
    "pause": ("fleet.pause",),
    "transfer": ("learners.send_weights",),
    "receipts": ("fleet.receipts",),
    "probe": ("learners.score", "fleet.score"),
    "resume": ("fleet.resume",),
}
ROUNDS = 5
IN_FLIGHT = 16  # episodes played during the syncs
PLAY_SECONDS = 0.5  # between two syncs


class Stopwatch:
    """Stands before an object and keeps how long each of its methods took, in seconds."""

    def __init__(self, target: Any, name: str, seconds: dict[str, float]):
        self.target, self.name, self.seconds = target, name, seconds

    def __getattr__(self, method: str) -> Any:
        found = getattr(self.target, method)
        if not callable(found):
            return found

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return found(*arguments, **named)
            finally:
                self.seconds[f"{self.name}.{method}"] += time.perf_counter() - started

        return timed


def measure(quick: bool, say: Say) -> dict[str, Any]:
    results: dict[str, Any] = {}
    sizes = list(SIZES)[: 2 if quick else None]
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder, private_ray(cpus=2, objects=3 * 2**29):
        for size in sizes:
            model = untrained(size, demo(), Path(folder))
            results[size] = {"parameters": parameters_of(model), "transports": {}}
            for transport, overrides in TRANSPORTS.items():
                say(f"{size} parameters by {transport}")
                made = [f"learner.sync.transport={transport}", "learner.sync.probe_every=1", *overrides]
                config = demo("rollout.engine.kind=vllm", *made)
                results[size]["transports"][transport] = syncs(config, size, transport, model, 3 if quick else ROUNDS)
    return {"sizes": results}


def syncs(config: RunConfig, size: str, transport: str, model: Path, rounds: int) -> dict[str, Any]:
    name = f"benchmark-{size}-{transport}"
    learners = LearnerGroup(
        config.learner, str(model), config.rollout.temperature, seed=0, name=name, transport=transport, digest=digest
    )
    fleet = Fleet(
        config.rollout, worker_spec(config, model, run=name, transport=transport, lora_rank=config.learner.lora.rank)
    )
    try:
        fleet.launch()
        learners.start()
        fleet.start()
        check_model(model, config)
        found = timed_syncs(config, fleet, learners, ProbeTexts(config, str(model)), rounds)
        return found | {"digest_seconds": None if transport == "adapter" else digest_seconds(model)}
    finally:
        fleet.close()
        learners.close()


def digest_seconds(folder: Path) -> float:
    """Of all tensors of a model once, by one core as a rank or a worker has it; the best of three."""
    tensors = [tensor for file in folder.glob("*.safetensors") for tensor in load_file(file).values()]
    cores, found = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        for _ in range(3):
            started = time.perf_counter()
            numbers_of(digest(tensor) for tensor in tensors)
            found.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(cores)
    return min(found)


def timed_syncs(
    config: RunConfig, fleet: Fleet, learners: LearnerGroup, texts: ProbeTexts, rounds: int
) -> dict[str, Any]:
    seconds: defaultdict[str, float] = defaultdict(float)
    sync = WeightSync(
        Stopwatch(fleet, "fleet", seconds),
        Stopwatch(learners, "learners", seconds),
        config.learner.sync,
        sequences=texts.sequences,
        half=False,
    )
    first, gap = sync.publish(0).seconds, 0.0
    found: dict[str, Any] = {"first_seconds": first}
    for kind in ("idle", "playing"):
        steps: dict[str, list[float]] = {step: [] for step in (*STEPS, "whole")}
        for _ in range(rounds):
            if kind == "playing":
                keep_playing(config, fleet)
            seconds.clear()
            report = sync.publish(0)
            gap = max(gap, report.parity_gap)
            steps["whole"].append(report.seconds)
            for step, methods in STEPS.items():
                steps[step].append(sum(seconds[method] for method in methods))
        found[kind] = {
            "seconds": {step: asdict(spread(each)) for step, each in steps.items()},
            "share": {step: sum(steps[step]) / sum(steps["whole"]) for step in STEPS},
            "samples": steps,
        }
    return found | {"parity_gap": gap}


def keep_playing(config: RunConfig, fleet: Fleet) -> None:
    """Fill up to IN_FLIGHT episodes and let them run for a while."""
    counts = fleet.counters
    missing = IN_FLIGHT - (counts["assigned"] - counts["returned"])
    fleet.assign(tickets(config, missing, first=counts["assigned"]))
    until = time.monotonic() + PLAY_SECONDS
    while (left := until - time.monotonic()) > 0:
        fleet.poll(left)


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title="Weight sync: seconds of one publish", title_justify="left")
    table.add_column("parameters", justify="right")
    table.add_column("transport")
    table.add_column("first", justify="right")
    table.add_column("engine idle", justify="right")
    table.add_column("engine playing", justify="right")
    for step in STEPS:
        table.add_column(step, justify="right")
    table.add_column("one digest", justify="right")
    table.add_column("parity gap", justify="right")
    for one in result["sizes"].values():
        for number, (transport, found) in enumerate(one["transports"].items()):
            playing = found["playing"]
            table.add_row(
                "" if number else short(one["parameters"]),
                transport,
                f"{found['first_seconds']:.2f}",
                spread_of(found["idle"]["seconds"]["whole"], ".3f"),
                spread_of(playing["seconds"]["whole"], ".3f"),
                *(f"{playing['seconds'][step]['median']:.3f} ({playing['share'][step]:.0%})" for step in STEPS),
                "-" if found["digest_seconds"] is None else f"{found['digest_seconds']:.3f}",
                f"{found['parity_gap']:.0e}",
                end_section=number == len(one["transports"]) - 1,
            )
    return [table]


if __name__ == "__main__":
    run_alone("sync", measure, tables)
