"""The one line of a run that cannot say it itself.

    with last_word(then) as word: ...    ended in order, or by an exception: nothing is said here
                                         killed, or ended by Ray (which ends its driver's process at once where its
                                         raylet or its GCS is gone): one line that tells how to go on: `then`
    word.end(why)                        the same from inside, where the process can do no more than end; a run that
                                         was asked to stop has stopped, whatever else went with it

A small process waits for the end of a pipe that nobody but the run's process holds. With --keep-going it is not
needed: there the process that waits for the run says what happened.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event

IN_ORDER = b"in order"
SPOKEN_FOR = "PARLEY_SPOKEN_FOR"  # in the environment of a run whose end somebody else tells
WAIT_SECONDS = 10.0
LOST_CODE = 75  # of cluster.errors.LostError; this file imports nothing of Parley, for it is also run by itself
STOPPED_CODE = 130


class LastWord:
    def __init__(self, then: str, asked: Event | None = None):
        """`asked`: set when the run is asked to stop."""
        self.then, self.asked = then, asked or Event()
        self.listener: subprocess.Popen | None = None

    def listen(self) -> None:
        command = [sys.executable, "-I", "-S", __file__, self.then]
        self.listener = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def in_order(self) -> None:
        if self.listener is None:
            return
        try:
            self.listener.communicate(IN_ORDER, timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.listener.kill()

    def end(self, why: str, then_kill: Sequence[int] = ()) -> None:
        """End this process, from any of its threads; nothing is unwound. `then_kill`: processes that end after it: Ray
        would end this one with a code of its own when it sees them gone."""
        self.in_order()
        stopped = self.asked.is_set()
        os.write(2, f"parley: {'stopped' if stopped else why}; {self.then}\n".encode())
        if then_kill:
            killing = ["/bin/sh", "-c", 'sleep 1; kill -9 "$@"', "sh", *map(str, then_kill)]
            subprocess.Popen(killing, stderr=subprocess.DEVNULL, start_new_session=True)
        os._exit(STOPPED_CODE if stopped else LOST_CODE)


@contextmanager
def last_word(then: str, asked: Event | None = None) -> Iterator[LastWord]:
    word = LastWord(then, asked)
    if not os.environ.get(SPOKEN_FOR):
        word.listen()
    try:
        yield word
    finally:
        word.in_order()


def listen(then: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with the pipe
    if sys.stdin.buffer.read() != IN_ORDER:
        print(
            f"parley: the process was killed, or ended by Ray, which does so where its raylet or GCS is gone; {then}",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    listen(sys.argv[1])
