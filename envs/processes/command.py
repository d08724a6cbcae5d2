"""The guard of a command that is talked to over its standard input and output: a small process that starts it.

    standard input     the command's own, untouched; once nobody holds the other end any more, the command is ended
    standard output    the command's own, untouched
    standard error     of the guard, and one line at most: why the command could not be started, or the last one that it
                       told on its own standard error before it failed by itself

Once it is not wanted, the command has a moment to end by itself, is told to, and is killed; with it ends whatever it
has started, as with the guard of a world. Where it failed by itself, the guard ends with its exit status. Should the
guard itself be killed, the kernel kills the command.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from envs.processes.guard import LAST_WORDS, NEEDED, SET_DEATH_SIGNAL, SET_SUBREAPER, end, last_line, taken

ENDING_SECONDS = 1.0  # for a command to end once its input has ended
TOLD_SECONDS = 0.5  # and once it was told to
# Nothing of the environment or of installed packages is read: both are the command's alone.
START = "import sys; sys.path.append(sys.argv[1]); from envs.processes.command import main; main(sys.argv[2:])"
ROOT = Path(__file__).resolve().parents[2]


def guarded(command: list[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", START, str(ROOT), *command]


def main(command: list[str]) -> None:
    if not Path(NEEDED).exists():
        sys.exit(f"{NEEDED} is not there: servers that are started need Linux with CONFIG_PROC_CHILDREN")
    control = ctypes.CDLL(None).prctl
    control(SET_SUBREAPER, 1)
    printed, prints = os.pipe()
    started = os.fork()
    if started == 0:
        become(command, prints, control)
    signal.signal(signal.SIGTERM, _told)
    os.close(prints)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 1)  # or nobody would notice that the command has closed it
        by_itself, said = watch(started, printed)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        status = end(started)
    if by_itself and status:
        os.write(2, last_line(said + taken(printed)).encode())
        sys.exit(os.waitstatus_to_exitcode(status) % 256)


def _told(*_: object) -> None:
    sys.exit()


def become(command: list[str], prints: int, control: Callable[[int, int], int]) -> None:
    told = os.dup(2)
    try:
        control(SET_DEATH_SIGNAL, signal.SIGKILL)
        for each in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a command inherits that
            signal.signal(each, signal.SIG_DFL)
        os.dup2(prints, 2)
        os.execvpe(command[0], command, environment())
    except OSError as error:
        os.write(told, f"{error.strerror}: {command[0]!r}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def environment() -> dict[bytes, bytes]:
    """As it was given: Python adds a variable of its own where no language is set."""
    lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(line.split(b"=", 1) for line in lines if b"=" in line)


def watch(started: int, printed: int) -> tuple[bool, bytes]:
    """Until it has ended, or is not wanted and has had its time: whether nobody had told it to, and what it printed."""
    said, told, deadline = b"", False, math.inf
    ended, waiting = os.pidfd_open(started), select.poll()
    os.set_blocking(printed, False)
    for descriptor, what in ((ended, select.POLLIN), (printed, select.POLLIN), (0, 0)):  # 0: hang-ups only
        waiting.register(descriptor, what)
    while True:
        left = deadline - time.monotonic()
        events = dict(waiting.poll(None if left == math.inf else max(1000 * left, 0)))
        if printed in events:
            more = taken(printed)
            said = (said + more)[-LAST_WORDS:]
            if not more:  # nobody is left who could print
                waiting.unregister(printed)
        if ended in events:
            return not told, said
        if 0 in events:
            waiting.unregister(0)
            deadline = time.monotonic() + ENDING_SECONDS
        elif time.monotonic() >= deadline and told:
            return False, said
        elif time.monotonic() >= deadline:
            os.kill(started, signal.SIGTERM)
            told, deadline = True, time.monotonic() + TOLD_SECONDS
