"""The worker's side of the sandboxes: start keepers, send fits and predictions, take back pickles and numbers.

A sandbox is used again after a fit that ended by itself, whatever it ended with: the keeper
cannot be reached from a fit. After a time-out, or an answer longer than any honest one, it
is killed with everything in it. At most `AT_ONCE` of them work at the same time in a worker
process; who asks for more waits, and the wait does not count as a fit's time.

What comes out of a sandbox is a claim. It has a bounded length, is read as plain numbers or
as words of a list, and nothing of it is ever executed, unpickled or taken for the state of the
sandbox; the pickle of a fit goes into the next process of a sandbox as it came.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy

from envs.data_science.sandbox.inside.keeper import ERROR_BYTES, READY
from envs.data_science.sandbox.isolation import ENVIRONMENT, keeper

AT_ONCE = min(8, len(os.sched_getaffinity(0)))
START_SECONDS = 120  # importing scikit-learn from a cold disk on a busy machine
DEATH_SECONDS = 30
LARGEST_MODEL = 2**26  # bytes of a pickle


class SandboxFailed(RuntimeError):
    """The sandbox itself broke: nobody's code is to blame, and no turn can be scored."""


@dataclass(frozen=True, slots=True)
class Limits:
    walls: str
    seconds: int  # of a processor, each fit
    megabytes: int  # of address space, each fit


@dataclass(frozen=True, slots=True)
class Fit:
    """What a fit is given: one half of the rows, and their classes. It answers with a pickle."""

    code: str
    x_train: numpy.ndarray
    y_train: numpy.ndarray
    seed: int
    limits: Limits

    def message(self) -> bytes:
        return _message(self, self.x_train, self.y_train.astype("<i8").tobytes(), code=self.code)

    def longest(self) -> int:
        return 1 + LARGEST_MODEL


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a process that predicts is given: the pickle of a fit, and the other half of the rows, without classes.
    It answers with numbers."""

    model: bytes
    x_test: numpy.ndarray
    classes: int
    seed: int
    limits: Limits

    def message(self) -> bytes:
        return _message(self, self.x_test, self.model, classes=self.classes)

    def longest(self) -> int:
        return 1 + max(8 * len(self.x_test) * self.classes, ERROR_BYTES)


def _message(asked: Fit | Prediction, x: numpy.ndarray, rest: bytes, **more: object) -> bytes:
    limits = {"seconds": asked.limits.seconds, "megabytes": asked.limits.megabytes}
    shape = {"rows": len(x), "columns": x.shape[1], "rest": len(rest)}
    header = json.dumps({**limits, **shape, "seed": asked.seed, **more}).encode()
    return b"".join([struct.pack("<I", len(header)), header, x.astype("<f8").tobytes(), rest])


class Sandbox:
    """One keeper and its pipes. Used by one thread at a time."""

    def __init__(self, walls: str):
        self.walls = walls
        self.complaints = tempfile.TemporaryFile()
        self.results, results_end = os.pipe()
        with open(os.devnull, "r+b") as null:
            self.process = subprocess.Popen(
                keeper(walls, results_end, null.fileno(), "serve"),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.complaints,
                pass_fds=(results_end, null.fileno()),
                env=ENVIRONMENT,
                start_new_session=True,  # its process group is all that is in it, and nothing leaves it
            )
        os.close(results_end)
        self.requests, self.reports = self.process.stdin.fileno(), self.process.stdout.fileno()
        for descriptor in (self.requests, self.reports, self.results):
            os.set_blocking(descriptor, False)
        try:
            report, _ = self._exchange(b"", 0, time.monotonic() + START_SECONDS)
        except TimeoutError:
            report = None
        if report != READY:
            self.kill()
            raise SandboxFailed(f"a sandbox ({walls}) did not start: {self._last_words()}")

    def run(self, asked: Fit | Prediction, deadline: float) -> tuple[int, bytes]:
        """Its process's wait status and what it sent. TimeoutError at the deadline (time.monotonic)
        and OverflowError past the longest honest answer, both with the sandbox dead."""
        try:
            return self._exchange(asked.message(), asked.longest(), deadline)
        except BaseException:
            self.kill()
            raise

    def _exchange(self, message: bytes, longest: int, deadline: float) -> tuple[int, bytes]:
        """Send a message while listening, until the keeper reports."""
        left, report, sent = memoryview(message), b"", bytearray()
        with selectors.DefaultSelector() as ready:
            ready.register(self.reports, selectors.EVENT_READ)
            ready.register(self.results, selectors.EVENT_READ)
            if left:
                ready.register(self.requests, selectors.EVENT_WRITE)
            while len(report) < 4:
                events = ready.select(max(0.0, deadline - time.monotonic()))
                if time.monotonic() >= deadline:
                    raise TimeoutError
                for key, _ in events:
                    if key.fd == self.requests:
                        with contextlib.suppress(BlockingIOError, BrokenPipeError):
                            left = left[os.write(self.requests, left) :]
                        if not left:
                            ready.unregister(self.requests)
                    elif key.fd == self.results:
                        self._take(sent, longest)
                    else:
                        piece = os.read(self.reports, 4 - len(report))
                        report += piece
                        if not piece:
                            raise SandboxFailed(f"a sandbox ({self.walls}) died: {self._last_words()}")
        while self._take(sent, longest):
            pass
        if left:
            raise SandboxFailed("a fit ended before it had read its data")
        return struct.unpack("<I", report)[0], bytes(sent)

    def _take(self, sent: bytearray, longest: int) -> bool:
        """Read what is there of the results; False where there is nothing now."""
        try:
            piece = os.read(self.results, 2**16)
        except BlockingIOError:
            return False
        sent += piece
        if len(sent) > longest:
            raise OverflowError
        return bool(piece)

    def kill(self) -> None:
        """Kill all that is in the sandbox, and wait until it is gone: then nobody holds the results' other end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=DEATH_SECONDS)
        deadline = time.monotonic() + DEATH_SECONDS
        os.set_blocking(self.results, False)
        while time.monotonic() < deadline:
            try:
                if not os.read(self.results, 2**16):
                    break
            except BlockingIOError:
                time.sleep(0.001)
        self.process.stdin.close()
        self.process.stdout.close()
        os.close(self.results)

    def _last_words(self) -> str:
        self.complaints.seek(0)
        said = self.complaints.read(10_000).decode("utf-8", "replace").strip().splitlines()
        return said[-1] if said else "it said nothing"


class Pool:
    """The sandboxes of this process: at most `AT_ONCE` at work, and as many kept warm."""

    def __init__(self) -> None:
        self.places = threading.BoundedSemaphore(AT_ONCE)
        self.lock = threading.Lock()
        self.idle: list[Sandbox] = []

    @contextlib.contextmanager
    def sandbox(self, walls: str) -> Iterator[Sandbox]:
        """A sandbox behind these walls, warm if there is one. It goes back into the pool unless it was killed."""
        with self.places:
            with self.lock:
                chosen = next((each for each in self.idle if each.walls == walls), None)
                if chosen is not None:
                    self.idle.remove(chosen)
                spare = self.idle.pop(0) if chosen is None and len(self.idle) >= AT_ONCE else None
            if spare is not None:
                spare.kill()
            if chosen is not None and chosen.process.poll() is not None:
                chosen.kill()  # or its pipe stays open
                chosen = None
            chosen = chosen or Sandbox(walls)
            try:
                yield chosen
            finally:
                if chosen.process.returncode is None:
                    with self.lock:
                        self.idle.append(chosen)

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for sandbox in idle:
            sandbox.kill()


pool = Pool()
atexit.register(lambda: pool.close())


def _forget() -> None:
    """In a forked child of the worker: its sandboxes are the worker's."""
    global pool
    pool = Pool()


os.register_at_fork(after_in_child=_forget)
