"""A long real run: do memory, handles and files stay as they are?

    python -m benchmarks.soak                  an hour
    python -m benchmarks.soak --minutes 10     shorter, to see whether it works

A run of small games with vLLM, rewards by intentions, checkpoints and held-out games goes on until it is stopped by
Ctrl-C, in a room of its own (benchmarks/chaos). Every few seconds all its processes are counted: their memory (shares
of what they have in common, PSS), open handles and threads, and the bytes in /dev/shm and in the temporary folder.

The first sixth is left out: everything is warmed up in it. The rest is cut into blocks of equal length, and a line is
fitted to their means. RULE, fixed before anything was run: a count grows if the interval of its slope lies above 0 and
the slope would add more than a hundredth of it in an hour. Intervals are 95 % of all counts together (Bonferroni).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.table import Table
from scipy import stats

from benchmarks.chaos.room import DISK, Room, wait_until
from benchmarks.chaos.schedule import SMALL
from benchmarks.chaos.trial import ENVIRONMENT, GONE_SECONDS
from benchmarks.chaos.victims import ACTORS, PROGRAMS, found, is_a, strike
from benchmarks.report import FOLDER, machine, stamp, write
from cluster.record.terminal import page

FAILED = FOLDER.parent / "soak"  # what a run that ended by itself left behind
SETTINGS = (
    *SMALL,
    "updates=1000000",
    "rollout.engine.kind=vllm",
    "max_staleness=1",
    "reward.shaper=aria",
    "evaluation.every=20",
    "checkpoint.every=20",
    "samples.updates=1",
    "samples.episodes=1",
)
LOOK_SECONDS = 2.0
START_SECONDS = 300.0
STOP_SECONDS = 60.0
WARM_UP = 1 / 6
BLOCKS = 20
NOTICED = 0.01  # of a count, in an hour
MIB = 2**20
OF_RAY = {  # by a part of the command line
    "dashboard": ("dashboard.py", "ray-dashboard-"),
    "agents": ("ray::DashboardAgent", "ray::RuntimeEnvAgent"),
    "log monitor": ("log_monitor.py",),
}
OURS = ("driver", *ACTORS, *PROGRAMS)  # by what chaos knows them
KINDS = (*OURS, *OF_RAY)
COUNTS = ("memory", "handles", "threads")
COUNTED = len(COUNTS) * (len(KINDS) + 1) + 2  # numbers that could grow


def watch(room: Room, folder: Path, seconds: float, say: Callable[[str], None]) -> list[dict[str, float]]:
    """A row for each look: counts by name, and when."""
    began, rows = time.monotonic(), []
    while time.monotonic() - began < seconds:
        if room.look() is not None:
            last = (folder / "output").read_text(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"the run ended with {room.ended}: {''.join(last)}")
        rows.append({"at": time.monotonic() - began, **counted(room, folder)})
        if len(rows) % 120 == 0:
            memory = sum(rows[-1][f"{kind} memory"] for kind in (*KINDS, "others"))
            say(f"{rows[-1]['at'] / 60:.0f} min, {memory:,.0f} MiB")
        time.sleep(LOOK_SECONDS)
    return rows


def counted(room: Room, folder: Path) -> dict[str, float]:
    counts = dict.fromkeys((f"{kind} {count}" for kind in (*KINDS, "others") for count in COUNTS), 0.0)
    for process in room.processes():
        with suppress(psutil.Error, OSError):
            kind = kind_of(process.cmdline())
            for count, value in zip(
                COUNTS,
                (process.memory_full_info().pss / MIB, process.num_fds(), process.num_threads()),
                strict=True,
            ):
                counts[f"{kind} {count}"] += value
    for name, place in (("/dev/shm", room.path("/dev/shm")), ("temporary files", folder / "t")):
        counts[name] = size_of(place) / MIB
    return counts


def kind_of(command: Sequence[str]) -> str:
    for kind, parts in OF_RAY.items():
        if any(part in word for word in command for part in parts):
            return kind
    return next((kind for kind in OURS if is_a(kind, command)), "others")


def size_of(place: Path) -> int:
    """Bytes of all files, but of Ray's session folder, which holds its logs."""
    total = 0
    for folder, inner, files in os.walk(place):
        inner[:] = [name for name in inner if name != "ray"]
        for name in files:
            with suppress(OSError):
                total += (Path(folder) / name).lstat().st_size
    return total


def slope(at: Sequence[float], values: Sequence[float]) -> dict[str, float]:
    """By the hour, with half the width of its interval; the mean; whether it grows."""
    kept = np.flatnonzero(np.array(at) >= WARM_UP * max(at))
    blocks = np.array_split(kept, min(BLOCKS, len(kept) // 2))
    hours = [np.mean(np.array(at)[block]) / 3600 for block in blocks]
    means = [np.mean(np.array(values)[block]) for block in blocks]
    line = stats.linregress(hours, means)
    half = line.stderr * stats.t.ppf(1 - 0.025 / COUNTED, len(blocks) - 2)
    mean = float(np.mean(means))
    grows = line.slope - half > 0 and line.slope > NOTICED * mean
    return {"mean": mean, "slope": float(line.slope), "half": float(half), "grows": bool(grows)}


def soak(minutes: float, say: Callable[[str], None]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="parley-soak-") as name:
        folder = Path(name)
        (folder / "recipe.yaml").write_text("name: soak\n")
        command = [sys.executable, "-m", "parley", "train", str(folder / "recipe.yaml"), *SETTINGS]
        with Room(folder, 0, ENVIRONMENT) as room:
            room.start([*command, f"output={folder / DISK}"], folder / "output")
            if not wait_until(
                lambda: room.look() is not None or any(folder.glob(f"{DISK}/*/metrics.jsonl")), START_SECONDS
            ):
                raise RuntimeError(f"the run did not start within {START_SECONDS:.0f} s")
            try:
                rows = watch(room, folder, 60 * minutes, say)
            except RuntimeError:
                shutil.copytree(folder / DISK, FAILED, dirs_exist_ok=True)
                raise
            (driver,) = found("driver", room.processes())
            strike(driver, "interrupt")
            if not wait_until(lambda: room.look() is not None, STOP_SECONDS):
                raise RuntimeError(f"the run did not stop within {STOP_SECONDS:.0f} s of Ctrl-C")
            wait_until(lambda: not room.processes(), GONE_SECONDS)
            left = [f"/dev/shm/{each.name}" for each in room.path("/dev/shm").iterdir()]
            left += [each.name for each in (folder / "t").iterdir() if not each.name.startswith(("ray", "pymp-"))]
            (metrics,) = folder.glob(f"{DISK}/*/metrics.jsonl")
            lines = metrics.read_text().splitlines()
            return {
                "minutes": minutes,
                "looks": len(rows),
                "updates": len(lines) - 1,
                "restarts": json.loads(lines[-1])["fleet/restarts"],
                "code": room.ended,
                "orphans": [process.pid for process in room.processes()],
                "left": left,
                "slopes": {name: slope([row["at"] for row in rows], [row[name] for row in rows]) for name in rows[0]},
            }


def tables(found: dict[str, Any]) -> list[Table]:
    title = f"{found['minutes']:g} minutes, {found['updates']:,} updates, {found['restarts']:g} restarts"
    left = f"code {found['code']}, {len(found['orphans'])} processes and {len(found['left'])} files left"
    table = Table(title=f"{title}; {left}", title_justify="left")
    for column in ("", "mean", "by the hour", ""):
        table.add_column(column, justify="right" if column else "left")
    for name, one in found["slopes"].items():
        if name != "at" and one["mean"]:
            change = f"{one['slope']:+.2f} ± {one['half']:.2f}"
            table.add_row(name, f"{one['mean']:,.1f}", change, "grows" if one["grows"] else "")
    return [table]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=FOLDER / f"{stamp()}-soak.json", help="where the JSON goes")
    asked = parser.parse_args()
    out = page()
    try:
        found = soak(asked.minutes, lambda text: out.print(f"[dim]soak: {text}[/dim]"))
    except RuntimeError as error:
        raise SystemExit(f"benchmarks.soak: {error}") from error
    write(asked.output, {"machine": machine(), **found})
    for table in tables(found):
        out.print(table)


if __name__ == "__main__":
    main()
