"""The one line of a run that cannot say it itself.

    with last_word(then) as word: ...    ended in order, or by an exception: nothing is said here
                                         killed, or ended by Ray (which ends its driver's process at once where its
                                         raylet or its GCS is gone): one line that tells how to go on: `then`
    word.end(why)                        the same from inside, where the process can do no more than end; a run that
                                         was asked to stop has stopped, whatever else went with it

A small process waits for the end of a pipe that nobody but the run's process holds (`cluster.record.ending`, which also
writes it into the run's folder). With --keep-going it says nothing: there the process that waits for the run does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

from cluster.errors import LostError
from cluster.record import ending
from cluster.record.ending import Ending

SPOKEN_FOR = "PARLEY_SPOKEN_FOR"  # in the environment of a run whose end somebody else tells
WAIT_SECONDS = 10.0
STOPPED_CODE = 130


class LastWord:
    def __init__(self, then: str, asked: Event | None = None, folder: Path | None = None):
        """`asked`: set when the run is asked to stop; `folder`: the run's, which is to say it too."""
        self.then, self.asked, self.folder = then, asked or Event(), folder
        self.ending = None if folder is None else Ending(folder)
        self.listener: subprocess.Popen | None = None

    def listen(self, silent: bool = False) -> None:
        command = [sys.executable, "-I", "-S", ending.__file__, self.then, str(self.folder or ""), "silent" * silent]
        self.listener = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def in_order(self) -> None:
        if self.listener is None:
            return
        try:
            self.listener.communicate(ending.IN_ORDER, timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.listener.kill()

    def end(self, why: str, then_kill: Sequence[int] = ()) -> None:
        """End this process, from any of its threads; nothing is unwound. `then_kill`: processes that end after it: Ray
        would end this one with a code of its own when it sees them gone."""
        self.in_order()
        stopped = self.asked.is_set()
        if self.ending is not None:
            with suppress(OSError):  # a disk that cannot be written is no reason to stay
                self.ending.ended("stopped" if stopped else "failed", why, self.then)
        os.write(2, f"parley: {'stopped' if stopped else why}; {self.then}\n".encode())
        if then_kill:
            killing = ["/bin/sh", "-c", 'sleep 1; kill -9 "$@"', "sh", *map(str, then_kill)]
            subprocess.Popen(killing, stderr=subprocess.DEVNULL, start_new_session=True)
        os._exit(STOPPED_CODE if stopped else LostError.exit_code)


@contextmanager
def last_word(then: str, asked: Event | None = None, folder: Path | None = None) -> Iterator[LastWord]:
    word, silent = LastWord(then, asked, folder), bool(os.environ.get(SPOKEN_FOR))
    if folder is not None or not silent:
        word.listen(silent)
    try:
        yield word
    finally:
        word.in_order()
