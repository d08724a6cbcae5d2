"""now.json in the run's folder: what the run is doing now, for whoever looks in from outside.

    {"update": 3, "stage": "learn", "since": 1767225600.123, "process": 4711, "host": "node7"}

`update`: how many are done, left out where none are made; `stage`: of the training loop, as in the metrics'
seconds/STAGE, null between two, and "start" before it; `since`: seconds of Unix time. It is gone when the run has
ended in order; of one that was killed it says where that was. A stage may take hours, so the file is touched
meanwhile: its age is a sign of life, on other hosts the only one.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from cluster.errors import RunFolderError

TOUCH_SECONDS = 30.0
SILENCE_SECONDS = 300.0  # then nobody is thought to be at work


class Now:
    def __init__(self, path: Path, clock: Callable[[], float] = time.time):
        self.path, self.clock = path, clock
        self.tell: Callable[[str | None, int], None] | None = None  # a terminal, of each stage that begins
        self.beside = path.with_name(f".{path.name}")
        self.open: list[str] = []  # stages that have begun, the innermost last

    def starting(self, update: int) -> None:
        """The run's process is there, and nothing is played yet."""
        self._write(update, "start")

    @contextmanager
    def stage(self, name: str, update: int) -> Iterator[None]:
        self.open.append(name)
        self._write(update)
        if self.tell is not None:
            self.tell(name, update)
        try:
            yield
        finally:
            self.open.pop()
        self._write(update)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Signs of life, until the end of this in order."""
        over = Event()

        def touch() -> None:
            while not over.wait(TOUCH_SECONDS):
                with suppress(OSError):
                    os.utime(self.path)

        self._write(None)
        Thread(target=touch, daemon=True).start()
        try:
            yield
        finally:
            over.set()
        self.ended()

    def _write(self, update: int | None, stage: str | None = None) -> None:
        """Whole or not at all; not forced to the disk, for it is old news at once."""
        stage = self.open[-1] if self.open else stage
        told = {} if update is None else {"update": update}
        told |= {"stage": stage, "since": round(self.clock(), 3), "process": os.getpid(), "host": socket.gethostname()}
        try:
            self.beside.write_text(json.dumps(told) + "\n")
            os.replace(self.beside, self.path)
        except OSError as error:
            raise RunFolderError(f"cannot write {self.path}: {error.strerror}") from error

    def ended(self) -> None:
        self.path.unlink(missing_ok=True)
