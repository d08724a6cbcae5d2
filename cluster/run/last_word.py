"""The one line of a run that cannot say it itself.

    with last_word(folder): ...     ended in order, or by an exception: nothing is said here
                                    killed, or ended by Ray (which ends its driver's process at once where its raylet or
                                    its GCS is gone): one line that tells how to go on

A small process waits for the end of a pipe that nobody but the run's process holds. With --keep-going it is not
needed: there the process that waits for the run says what happened.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IN_ORDER = b"in order"
SPOKEN_FOR = "PARLEY_SPOKEN_FOR"  # in the environment of a run whose end somebody else tells
WAIT_SECONDS = 10.0


@contextmanager
def last_word(folder: Path) -> Iterator[None]:
    if os.environ.get(SPOKEN_FOR):
        yield
        return
    command = [sys.executable, "-I", "-S", __file__, str(folder)]
    listener = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        try:
            listener.communicate(IN_ORDER, timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            listener.kill()


def listen(folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with the pipe
    if sys.stdin.buffer.read() != IN_ORDER:
        print(
            "parley: the run's process was killed, or ended by Ray, which does so where its raylet or GCS is gone; "
            f"go on with: parley resume {folder}",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    listen(sys.argv[1])
