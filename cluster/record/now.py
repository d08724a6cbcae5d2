"""now.json in the run's folder: what the run is doing now, for whoever looks in from outside.

    {"update": 3, "stage": "learn", "since": 1767225600.123, "process": 4711}

`update`: how many are done; `stage`: of the training loop, as in the metrics' seconds/STAGE, null between two; `since`:
seconds of Unix time. It is gone when the run has ended in order; of one that was killed it says where that was.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.errors import RunFolderError


class Now:
    def __init__(self, path: Path, clock: Callable[[], float] = time.time):
        self.path, self.clock = path, clock
        self.tell: Callable[[str | None, int], None] | None = None  # a terminal, of each stage that begins
        self.beside = path.with_name(f".{path.name}")
        self.open: list[str] = []  # stages that have begun, the innermost last

    def starting(self, update: int) -> None:
        """The run's process is there, and nothing is played yet."""
        self._write(update)

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

    def _write(self, update: int) -> None:
        """Whole or not at all; not forced to the disk, for it is old news at once."""
        stage = self.open[-1] if self.open else None
        told = {"update": update, "stage": stage, "since": round(self.clock(), 3), "process": os.getpid()}
        try:
            self.beside.write_text(json.dumps(told) + "\n")
            os.replace(self.beside, self.path)
        except OSError as error:
            raise RunFolderError(f"cannot write {self.path}: {error.strerror}") from error

    def ended(self) -> None:
        self.path.unlink(missing_ok=True)
