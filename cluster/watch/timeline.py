"""The lanes of a run as a file in the Trace Event Format, which Perfetto and Chrome open.

    training loop    updates, with their stages, and in `learn` what the learners did
    reward service   episodes that it prepared, batches that it shaped
    worker N         its games, each with its turns; games that ran at once lie in slots below one another

Times are microseconds since the beginning of the first update that is drawn; `otherData` has that moment in Unix time.
Games and turns lie where they were. Of stages the run keeps how long each took in an update, so they are drawn in the
order in which the loop has them; what a reward service prepared is drawn before the batch that it shaped.
"""

from __future__ import annotations

import gzip
import heapq
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster.episodes.reader import Episodes
from cluster.errors import RunError, RunFolderError
from cluster.record.run import Run
from cluster.watch.lanes import stages_of, timed_rows

LOOP, REWARDS, FIRST_WORKER = 1, 2, 10  # processes of the trace
STAGES, LEARNERS = 1, 2  # threads of the loop
LEARNING = ("fetch", "prepare", "forward_backward", "step")  # learner/NAME_seconds, in the order of an update
CURVES = ("rollout/outcome", "rollout/staleness", "rollout/tokens_per_second")
LONGEST = 300  # characters of an utterance
KEY = ("update", "held_out", "number", "attempt", "newest")
PLACED = (*KEY, "worker", "ended", "seconds")
TOLD = ("failure", "seed", "outcome", "tokens", "turns", "dialogue")

Event = dict[str, Any]
Game = tuple[int, bool, int, int, int | None]  # of KEY


def write_timeline(folder: str | Path, to: Path | None, updates: int) -> tuple[Path, int]:
    """The newest updates of a run, into a file (compressed if its name ends with .gz); how many events it has."""
    run = Run(folder)
    rows = timed_rows(run.metrics, updates)
    if not rows:
        raise RunError(f"{folder} has no timeline yet: no update has ended")
    path = (to or run.folder / "timeline.json").expanduser()
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    begin = _begin(rows[0])
    other = {"run": run.folder.name, "begin_unix_seconds": begin}
    try:
        with gzip.open(beside, "wt") if path.suffix == ".gz" else beside.open("w") as file:
            file.write(f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(other)}, "traceEvents": [\n')
            count = 0
            for event in events(run, rows):
                file.write(f"{',' if count else ''}{json.dumps(event)}\n")
                count += 1
            file.write("]}\n")
        beside.replace(path)
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    return path, count


def events(run: Run, rows: Sequence[dict[str, Any]]) -> Iterator[Event]:
    begin = _begin(rows[0])
    yield from _named(LOOP, "training loop", {STAGES: "updates", LEARNERS: "learners"})
    yield from _named(REWARDS, "reward service", {1: "rewards"})
    yield from _updates(rows, begin)
    if (run.folder / "episodes").is_dir():
        yield from _games(run.episodes(f"update >= {int(rows[0]['update'])}"), begin)


def _begin(row: dict[str, Any]) -> float:
    return row["time"] - row["seconds/update"]


def _named(process: int, name: str, threads: dict[int, str]) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}
    for thread, what in threads.items():
        yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": what}}


def _slice(process: int, thread: int, name: str, kind: str, start: float, stop: float, **told: Any) -> Event:
    """From `start` to `stop`, in seconds. Both are rounded, so what lies within another slice stays within it."""
    at = _micro(start)
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "cat": kind,
        "ts": at,
        "dur": max(0, _micro(stop) - at),
        "args": told,
    }


def _micro(seconds: float) -> int:
    return max(0, round(1e6 * seconds))


def _updates(rows: Sequence[dict[str, Any]], begin: float) -> Iterator[Event]:
    ended, before = 0.0, {}
    for row in rows:
        start, stop = max(ended, _begin(row) - begin), max(ended, row["time"] - begin)
        name = f"update {row['update']:.0f}"
        yield _slice(LOOP, STAGES, name, "update", start, stop, **{key: row[key] for key in CURVES if key in row})
        spans = {stage: (max(first, start), min(last, stop)) for stage, first, last in stages_of(row, begin)}
        for stage, span in spans.items():
            yield _slice(LOOP, STAGES, stage, "stage", *span, seconds=row[f"seconds/{stage}"])
        if "learn" in spans:
            yield from _learning(row, *spans["learn"])
        if before:
            asked, _ = spans.get("shape") or spans.get("learn") or (stop, stop)
            yield from _rewards(before, row, ended, asked, min(stop, asked + _spent(before, row, "shape")))
        for curve in CURVES:
            if curve in row:
                yield {
                    "ph": "C",
                    "pid": LOOP,
                    "name": curve,
                    "ts": _micro(stop),
                    "args": {curve.partition("/")[2]: row[curve]},
                }
        ended, before = stop, row


def _learning(row: dict[str, Any], at: float, stop: float) -> Iterator[Event]:
    for part in LEARNING:
        seconds = row.get(f"learner/{part}_seconds", 0.0)
        if seconds and at < stop:
            yield _slice(LOOP, LEARNERS, part, "learners", at, min(at + seconds, stop), seconds=seconds)
            at += seconds


def _rewards(before: dict[str, Any], row: dict[str, Any], begin: float, asked: float, done: float) -> Iterator[Event]:
    """The service's seconds are counted from its start."""
    if prepared := _spent(before, row, "prepare"):
        yield _slice(REWARDS, 1, "prepare", "rewards", max(begin, asked - prepared), asked, seconds=prepared)
    if done > asked:
        yield _slice(REWARDS, 1, "shape", "rewards", asked, done, seconds=done - asked)


def _spent(before: dict[str, Any], row: dict[str, Any], what: str) -> float:
    """In this update; of a service that was started anew, since then."""
    was, now = (each.get(f"reward/{what}_seconds", 0.0) for each in (before, row))
    return now - was if now >= was else now


def _games(games: Episodes, begin: float) -> Iterator[Event]:
    slots = _slots(games.table(PLACED), begin)
    for worker in sorted({worker for worker, _, _, _ in slots.values()}):
        many = 1 + max(slot for found, slot, _, _ in slots.values() if found == worker)
        yield from _named(FIRST_WORKER + worker, f"worker {worker}", {slot: f"slot {slot}" for slot in range(many)})
    for table in games.batches([*PLACED, *TOLD]):
        yield from _drawn(table, slots, begin)


def _slots(table: pa.Table, begin: float) -> dict[Game, tuple[int, int, float, float]]:
    """Of each game its worker, its slot there, and from when to when it was played: games of a slot follow each
    other. One that failed without a trace of its beginning takes no time."""
    played = []
    for row in table.to_pylist():
        if row["worker"] is not None:
            stop = row["ended"] - begin
            start = max(0.0, stop - (row["seconds"] or 0.0))
            played.append((start, stop, row["worker"], tuple(row[name] for name in KEY)))
    found, free, busy = {}, {}, {}
    for start, stop, worker, game in sorted(played):
        if stop < 0:
            continue
        ready, taken = free.setdefault(worker, []), busy.setdefault(worker, [])
        while taken and taken[0][0] <= start:
            heapq.heappush(ready, heapq.heappop(taken)[1])
        slot = heapq.heappop(ready) if ready else len(taken)
        heapq.heappush(taken, (stop, slot))
        found[game] = worker, slot, start, stop
    return found


def _drawn(table: pa.Table, slots: dict[Game, tuple[int, int, float, float]], begin: float) -> Iterator[Event]:
    """Games of a table, and their turns."""
    dialogue = table["dialogue"].combine_chunks()
    turns = dialogue.flatten()
    names = ("seat", "player", "utterance", "reward", "asked", "answered", "played")
    told = [turns.field(name).to_pylist() for name in names]
    sizes, offsets = turns.field("utterance_ids").value_lengths().to_pylist(), _starts(dialogue)
    for place, row in enumerate(table.drop_columns(["dialogue"]).to_pylist()):
        where = slots.get(tuple(row[name] for name in KEY))
        if where is None:  # it came since
            continue
        worker, slot, start, stop = where
        at = FIRST_WORKER + worker, slot
        use = row["failure"] or ("held out" if row["held_out"] else "trained")
        about = {name: row[name] for name in ("update", "seed", "attempt", "outcome", "tokens", "turns")} | {"use": use}
        yield _slice(*at, f"game {row['number']}", use, start, stop, **about)
        first, last, began = offsets[place], offsets[place + 1], stop - (row["seconds"] or 0.0)
        for seat, player, said, reward, *times, size in zip(
            *(each[first:last] for each in told), sizes[first:last], strict=True
        ):
            asked, answered, played = (min(max(start, began + seconds), stop) for seconds in times)
            yield _slice(*at, seat, "turn", asked, answered, player=player, said=said[:LONGEST], tokens=size)
            if played > answered:
                yield _slice(*at, "game goes on", "game", answered, played, reward=reward)


def _starts(dialogue: pa.ListArray) -> list[int]:
    return [each - dialogue.offsets[0].as_py() for each in dialogue.offsets.to_pylist()]
