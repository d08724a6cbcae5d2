"""Records of trials, so that a contest can be stopped and gone on with.

    NAME.jsonl      while runs are made, a line each: lines are only added; one that a kill cut off is run again
    NAME.json.xz    all of them as columns, written when the runs that were asked for have ended

Both are read. A record holds its whole trial, and answers for no other: a trial of other sizes or settings is
run again. pandas.read_json(path) reads a packed file as it is.

Trials run in processes of their own, a thread each. One that fails is told, and is an error when the others
are done; a process that dies, or a time limit, ends them all. What was recorded stays.
"""

from __future__ import annotations

import json
import lzma
import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.lab.trial import Record, Started, run, told, warm_start
from cluster.record.run_folder import write_whole

TRIAL_SECONDS = 1800
DIGITS = 4

Say = Callable[[str], None]


class Store:
    """`job` makes a trial's record, in a process of the pool; `tell` says what came of it."""

    def __init__(self, path: Path, job: Callable[[Started], Record] = run, tell: Callable[[Record], str] = told):
        self.path, self.job, self.tell = path, job, tell
        self.packed = path.with_suffix(".json.xz")
        self.records: dict[str, Record] = {}
        if self.packed.is_file():
            columns = json.loads(lzma.decompress(self.packed.read_bytes()))
            for values in zip(*columns.values(), strict=True):
                self._keep(Record(**dict(zip(columns, values, strict=True))))
        if path.is_file():
            text = path.read_text()
            if text and not text.endswith("\n"):  # or the next record would be lost with the half one
                with path.open("a") as file:
                    file.write("\n")
            self._read(text)

    def _read(self, lines: str) -> None:
        for line in lines.splitlines():
            try:
                self._keep(Record(**json.loads(line)))
            except json.JSONDecodeError:
                continue

    def _keep(self, record: Record) -> None:
        self.records[_key(record.trial)] = record

    def get(self, trial: Started) -> Record | None:
        return self.records.get(_key_of(trial))

    def put(self, trial: Started, record: Record) -> None:
        self.records[_key_of(trial)] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(_row(record), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def pack(self) -> None:
        """All records into the packed file, which is whole before the lines go."""
        rows = [_row(record) for record in self.records.values()]
        columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
        text = json.dumps(columns, allow_nan=False, separators=(",", ":"))
        write_whole(self.packed, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        self.path.unlink(missing_ok=True)

    def missing(self, trials: Iterable[Started]) -> list[Started]:
        return [trial for trial in trials if self.get(trial) is None]

    def complete(self, trials: Sequence[Started], processes: int, say: Say, until: float | None = None) -> bool:
        """Run what is missing, and pack all that there is. Warm starts are made first, each by one process.
        From `until` on, by time.monotonic, no run begins. Whether none is missing."""
        if missing := self.missing(trials):
            try:
                self._run(missing, processes, say, until)
            finally:
                self.pack()
        return not self.missing(trials)

    def _run(self, missing: Sequence[Started], processes: int, say: Say, until: float | None) -> None:
        failed = []
        with _pool(processes) as pool:
            starts = {str(trial.cloning): trial for trial in missing}
            for made in _ended([pool.submit(_warm, trial) for trial in starts.values()]):
                say(f"warm start {made.result()}")
            started = time.monotonic()
            jobs = {pool.submit(self.job, trial): trial for trial in missing}
            for number, job in enumerate(_ended(jobs), start=1):
                trial = jobs[job]
                if job.cancelled():
                    continue
                try:
                    self.put(trial, record := job.result())
                    found = self.tell(record)
                except BrokenProcessPool:
                    raise
                except Exception as error:
                    failed.append(trial.name)
                    found = f"failed: {type(error).__name__}: {error}"
                now = time.monotonic()
                if until is not None and now > until:
                    for other in jobs:
                        other.cancel()
                left = (now - started) / number * (len(missing) - number)
                say(f"{number}/{len(missing)} {trial.name}: {found}; {left / 60:.0f} min left")
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(missing)} runs failed, the first: {failed[0]}")


def _row(record: Record) -> dict[str, Any]:
    return _rounded(asdict(record)) | {"trial": record.trial}


def _key(trial: dict) -> str:
    """What is not set is left out: a trial stays the same when trials learn something new."""
    return json.dumps(_set(trial), sort_keys=True)


@cache
def _key_of(trial: Started) -> str:
    return _key(asdict(trial))


def _set(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _set(each) for name, each in value.items() if each is not None and each != () and each != []}
    return value


def _rounded(value: Any) -> Any:
    """A few digits are enough; what is no number is null."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Nobody waits for its processes: they are idle, or something has ended what they were to run."""
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_settle)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # which lets go of those at work without ending them
        for process in multiprocessing.active_children():
            if process not in others:
                process.kill()


def _ended(jobs: Collection[Future]) -> Iterator[Future]:
    """As they end. One that hangs does not hang the rest for long: some other ends, or it is noticed."""
    left = {*jobs}
    while left:
        ended, left = wait(left, TRIAL_SECONDS, FIRST_COMPLETED)
        if not ended:
            raise TimeoutError(f"no run has ended for {TRIAL_SECONDS} s, though {len(left)} are left")
        yield from ended


def _warm(trial: Started) -> str:
    return warm_start(trial).name


def _settle() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    from benchmarks.report import quiet

    torch.set_num_threads(1)
    quiet()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
