"""What it costs to keep every game, and how fast they are found: the store of Parquet parts beside SQLite.

    python -m benchmarks.episodes [--quick]

    a run        the demo recipe; in one run, blocks of updates with the store and without take turns
    the stores   its games, over and over with other numbers and log-probs: bytes of a turn, seconds of an update
    many         a million of them: seconds to open and to filter, on two cores; and on the live page, in Chromium
    kills        SIGKILL of a writer at 50 random moments: games that are lost or doubled

SQLite has one row a game in WAL mode, and its turns, compressed, in a table beside it, so that a filter does not read
them. Both are on the disk after every update.
"""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table
from scipy.stats import t as student

from benchmarks.episodes_killed import kill_at_random
from benchmarks.episodes_watched import watched
from benchmarks.report import Say, run_alone
from cluster.episodes.columns import PLAIN, SCHEMA
from cluster.episodes.reader import Episodes
from cluster.episodes.store import EpisodeStore, parts_of

ROOT = Path(__file__).parents[1]
BLOCK, SKIPPED = 10, 4  # updates of a block; its first ones still pay for the block before
BATCH, AT_ONCE = 128, 2048  # games of an update; of the many, which are written faster
TIME_LIMIT_SECONDS = 3000
FILTER, WORDS = "outcome < .5 and turns > 3 and not held_out", "is it loud"


def measure(quick: bool, say: Say) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as made:
        folder = Path(made)
        say("a run of the demo recipe")
        updates = 4 * BLOCK if quick else 12 * BLOCK
        cost, games = paired_run(folder, updates)
        some, many = (4096, 20_000) if quick else (16_384, 1_000_000)
        found = {"run": cost, "games": some, "many": many, "filter": FILTER}
        for name, kind in (("parquet", Parquet), ("sqlite", Sqlite)):
            say(f"{some:,} and {many:,} games into {name}")
            found[name] = filled(kind(folder / name), games, some) | asked(kind(folder / f"{name}-many"), games, many)
        say("opening and filtering them in Chromium")
        found["watched"] = watched(folder / "parquet-many", FILTER, WORDS)
        say("killing writers")
        found["kills"] = kill_at_random(folder / "killed", 10 if quick else 50)
    return found


# The run


def paired_run(folder: Path, updates: int) -> tuple[dict[str, float], pa.Table]:
    """What the store costs an update, and the games that it has kept."""
    command = [sys.executable, "-m", "benchmarks.episodes_run", f"updates={updates}", f"output={folder / 'runs'}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS)
    if ended.returncode:
        raise RuntimeError(f"the run ended with {ended.returncode}: {(ended.stderr or ended.stdout).strip()[-300:]}")
    (run,) = (folder / "runs").iterdir()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return of_run(run, lines)


def of_run(run: Path, lines: list[dict[str, float]]) -> tuple[dict[str, float], pa.Table]:
    kept = sum(part.path.stat().st_size for part in parts_of(run / "episodes"))
    turns = sum(Episodes(run / "episodes").table(["turns"])["turns"].to_pylist())
    games = Episodes(run / "episodes", "not held_out and failure is None").table(SCHEMA.names)
    return compared([line for line in lines if line["update"] > 0]) | {"bytes_turn": kept / turns}, games


def compared(lines: list[dict[str, float]]) -> dict[str, float]:
    """Blocks of one run against each other, pair by pair, and the time that the store's thread took of a processor."""
    with_store, without = [], []
    for start in range(0, len(lines) - 2 * BLOCK + 1, 2 * BLOCK):
        for found, first in ((with_store, start), (without, start + BLOCK)):
            found.append(np.median([line["seconds/update"] for line in lines[first + SKIPPED : first + BLOCK]]))
    ratios = np.array(with_store) / np.array(without)
    kept = sum((line["update"] - 1) // BLOCK % 2 == 0 for line in lines)
    half = student.ppf(0.975, len(ratios) - 1) * ratios.std(ddof=1) / np.sqrt(len(ratios))
    return {
        "update_seconds": float(np.median(without)),
        "more_time": float(ratios.mean() - 1),
        "more_time_interval": float(half),
        "thread_seconds": lines[-1]["record/seconds"] / kept,
    }


# The two stores


class Parquet:
    def __init__(self, folder: Path):
        self.folder, self.store = folder, EpisodeStore(folder, most_bytes=2**40)

    def write(self, update: int, games: pa.Table) -> None:
        self.store.write(update, update, games)
        while self.store.merge():
            pass

    def bytes(self) -> int:
        return self.store.bytes

    write_many = write

    def open(self) -> tuple[Any, int]:
        kept = Episodes(self.folder, FILTER)
        return kept, len(Episodes(self.folder))

    @staticmethod
    def count(kept: Episodes) -> int:
        return len(kept)


class Sqlite:
    COLUMNS = [name for name in PLAIN if name != "number"]

    def __init__(self, path: Path):
        self.path, self.base = path, sqlite3.connect(path)
        self.base.execute("PRAGMA journal_mode=WAL")
        self.base.execute("PRAGMA synchronous=FULL")
        self.base.execute(f"CREATE TABLE games (number INTEGER PRIMARY KEY, {', '.join(map(quoted, self.COLUMNS))})")
        self.base.execute("CREATE TABLE rest (number INTEGER PRIMARY KEY, packed BLOB)")

    def write(self, update: int, games: pa.Table) -> None:
        rest = [(row["number"], zlib.compress(pickle.dumps(packed(row)), 6)) for row in games.to_pylist()]
        with self.base:
            self.write_many(update, games)
            self.base.executemany("INSERT INTO rest VALUES (?, ?)", rest)

    def write_many(self, update: int, games: pa.Table) -> None:
        """What a filter reads."""
        rows = zip(*(games[name].to_pylist() for name in ("number", *self.COLUMNS)), strict=True)
        self.base.executemany(f"INSERT INTO games VALUES ({', '.join('?' * len(PLAIN))})", rows)

    def bytes(self) -> int:
        self.base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self.path.stat().st_size

    def open(self) -> tuple[Any, int]:
        self.base.commit()
        base = sqlite3.connect(self.path)
        return base, base.execute("SELECT count(*) FROM games").fetchone()[0]

    @staticmethod
    def count(base: sqlite3.Connection) -> int:
        asked = FILTER.replace("held_out", "held_out = 1")
        return base.execute(f"SELECT count(*) FROM games WHERE {asked}").fetchone()[0]


def quoted(name: str) -> str:
    return f'"{name}"'


def packed(row: dict[str, Any]) -> list[Any]:
    """What is no column: the arrays of a turn as bytes."""
    kinds = {"observation_ids": "i4", "utterance_ids": "i4", "versions": "i4", "logprobs": "f4", "credit": "f4"}
    turns = [
        [np.array(value, kinds[name]).tobytes() if name in kinds else value for name, value in turn.items()]
        for turn in row["dialogue"]
    ]
    return [[list(seat.values()) for seat in row["seats"]], row["facts"], row["closing"], turns]


def filled(store: Parquet | Sqlite, games: pa.Table, count: int) -> dict[str, float]:
    """What an update of BATCH games costs."""
    spent, turns = 0.0, 0
    for update, batch in enumerate(batches(games, count, BATCH), start=1):
        began = time.process_time()
        store.write(update, batch)
        spent += time.process_time() - began
        turns += sum(batch["turns"].to_pylist())
    return {"cpu_seconds_update": spent / update, "bytes_turn": store.bytes() / turns}


def asked(store: Parquet | Sqlite, games: pa.Table, count: int) -> dict[str, float]:
    """How long it takes to open a store of so many games, and to filter them; also in seconds of a processor."""
    for update, batch in enumerate(batches(games, count, AT_ONCE), start=1):
        store.write_many(update, batch)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    times = [(time.perf_counter(), time.process_time())]
    opened, held = store.open()
    times.append((time.perf_counter(), time.process_time()))
    found = {"found": store.count(opened)}
    times.append((time.perf_counter(), time.process_time()))
    if held != count:
        raise RuntimeError(f"{held} games of {count} are in the store")
    for name, before, after in (("open", times[0], times[1]), ("filter", times[1], times[2])):
        found |= {f"{name}_seconds": after[0] - before[0], f"{name}_cpu_seconds": after[1] - before[1]}
    return found


def batches(games: pa.Table, count: int, at_once: int) -> Iterator[pa.Table]:
    """Games of the run, drawn anew, with numbers and log-probs of their own."""
    chance = np.random.default_rng(0)
    for update, first in enumerate(range(0, count, at_once), start=1):
        size = min(at_once, count - first)
        drawn = games.take(chance.integers(0, len(games), size)).combine_chunks()
        drawn = with_column(drawn, "number", pa.array(range(first, first + size), pa.int64()))
        drawn = with_column(drawn, "update", pa.array([update] * size, pa.int32()))
        drawn = with_column(drawn, "surprise", pa.array(chance.random(size)))
        yield with_column(drawn, "dialogue", other_logprobs(drawn["dialogue"].combine_chunks(), chance))


def with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), SCHEMA.field(name), values)


def other_logprobs(dialogue: pa.ListArray, chance: np.random.Generator) -> pa.ListArray:
    turns = dialogue.flatten()
    fields = list(turns.type)
    place = [field.name for field in fields].index("logprobs")
    arrays = [turns.field(number) for number in range(len(fields))]
    old = arrays[place]
    values = pa.array(-chance.exponential(0.5, len(old.flatten())).astype(np.float32))
    lengths = np.diff(old.offsets.to_numpy())
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    arrays[place] = pa.ListArray.from_arrays(offsets, values)
    starts = dialogue.offsets.to_numpy()
    return pa.ListArray.from_arrays(pa.array(starts - starts[0]), pa.StructArray.from_arrays(arrays, fields=fields))


def tables(found: dict[str, Any]) -> list[Table]:
    run, kills = found["run"], found["kills"]
    cost = Table(title="a run of the demo recipe, with the store and without in turns")
    for name in ("update s", "more time with it", "its thread, CPU ms of an update", "of the update", "bytes a turn"):
        cost.add_column(name, justify="right")
    share = run["thread_seconds"] / run["update_seconds"]
    more = f"{100 * run['more_time']:.1f} % +- {100 * run['more_time_interval']:.1f}"
    thread, size = f"{1000 * run['thread_seconds']:.1f}", f"{run['bytes_turn']:.0f}"
    cost.add_row(f"{run['update_seconds']:.2f}", more, thread, f"{100 * share:.1f} %", size)
    beside = Table(title=f"{found['games']:,} games, and {found['many']:,} to open and to filter (of a processor)")
    for name in ("store", "bytes a turn", "CPU ms an update", "open s", "filter s", "found"):
        beside.add_column(name, justify="right")
    for name in ("parquet", "sqlite"):
        each = found[name]
        beside.add_row(
            name,
            f"{each['bytes_turn']:.0f}",
            f"{1000 * each['cpu_seconds_update']:.1f}",
            f"{each['open_seconds']:.2f} ({each['open_cpu_seconds']:.2f})",
            f"{each['filter_seconds']:.2f} ({each['filter_cpu_seconds']:.2f})",
            f"{each['found']:,}",
        )
    page = one_row(f"{found['many']:,} games on the live page, in Chromium: seconds", found["watched"])
    return [cost, beside, page, one_row("writers killed at random", kills)]


def one_row(title: str, values: dict[str, Any]) -> Table:
    made = Table(title=title)
    for name in values:
        made.add_column(name, justify="right")
    made.add_row(*(f"{each:.2f}" if isinstance(each, float) else str(each) for each in values.values()))
    return made


if __name__ == "__main__":
    run_alone("episodes", measure, tables)
