"""The guard of a command that is talked to over its standard input and output: a small process that starts it.

    standard input     the command's own, untouched; once nobody holds the other end any more, the command is ended
    standard output    the command's own, untouched
    standard error     of the guard: a line where the command could not be started. The command's is for nobody

The command has a moment to end by itself, is told to, and is killed; with it ends whatever it has started, as with the
guard of a world. Should the guard itself be killed, the kernel kills the command.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from envs.processes.guard import NEEDED, SET_DEATH_SIGNAL, SET_SUBREAPER, end

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
    started = os.fork()
    if started == 0:
        become(command, control)
    signal.signal(signal.SIGTERM, _told)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 1)  # or nobody would notice that the command has closed it
        watch(started)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end(started)


def _told(*_: object) -> None:
    sys.exit()


def become(command: list[str], control: Callable[[int, int], int]) -> None:
    told = os.dup(2)
    try:
        control(SET_DEATH_SIGNAL, signal.SIGKILL)
        for each in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a command inherits that
            signal.signal(each, signal.SIG_DFL)
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        os.execvpe(command[0], command, environment())
    except OSError as error:
        os.write(told, f"{error.strerror}: {command[0]!r}".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def environment() -> dict[bytes, bytes]:
    """As it was given: Python adds a variable of its own where no language is set."""
    lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(line.split(b"=", 1) for line in lines if b"=" in line)


def watch(started: int) -> None:
    """Until it has ended, or is not wanted and has had its time."""
    ended, waiting = os.pidfd_open(started), select.poll()
    waiting.register(ended, select.POLLIN)
    waiting.register(0, 0)  # hang-ups only
    waiting.poll()
    waiting.unregister(0)
    if not waiting.poll(1000 * ENDING_SECONDS):
        os.kill(started, signal.SIGTERM)
        waiting.poll(1000 * TOLD_SECONDS)
