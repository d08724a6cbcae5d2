"""The guard of a world: a small process that forks the world's, and outlives it by a moment.

    standard input     open as long as anybody wants the world; its end is the world's end
    standard output    one line of JSON when the world has ended: why, its wait status, its last words

Whatever the world has started - a Java machine - belongs to the guard once its parent is gone, and ends with it. Should
the guard itself be killed, the kernel kills the world. What the world leaves in the folder for temporary files, a
folder of its own, is removed with it. The guard imports nothing of the world, and computes nothing,
so it is never late.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from envs.processes.family import family, megabytes
from envs.processes.serving import serve

LOOK_SECONDS = 0.4  # between two looks at the memory
END_SECONDS = 10.0
LAST_WORDS = 4000  # bytes kept of what was printed
SET_DEATH_SIGNAL, SET_SUBREAPER = 1, 36  # of prctl
NEEDED = f"/proc/{os.getpid()}/task/{os.getpid()}/children"


def main() -> None:
    asked = json.loads(sys.argv[1])
    wire = socket.socket(fileno=asked["wire"])
    if not Path(NEEDED).exists():
        sys.exit(f"{NEEDED} is not there: worlds in processes need Linux with CONFIG_PROC_CHILDREN")
    control = ctypes.CDLL(None).prctl
    control(SET_SUBREAPER, 1)
    printed, prints = os.pipe()
    folder = tempfile.TemporaryDirectory(prefix="parley-world-", ignore_cleanup_errors=True)
    world = os.fork()
    if world == 0:
        os.environ["TMPDIR"] = tempfile.tempdir = folder.name
        try:
            control(SET_DEATH_SIGNAL, signal.SIGKILL)
            silence(prints)
            serve(wire, asked["of"], asked["options"])
        finally:
            os._exit(0)
    os.close(prints)
    wire.close()
    why, said = watch(world, printed, asked["megabytes"])
    status = end(world)
    folder.cleanup()
    said += taken(printed)
    with suppress(BrokenPipeError):
        print(json.dumps({"why": why, "status": status, "said": last_line(said)}), flush=True)


def silence(prints: int) -> None:
    """Whatever is printed goes to the guard."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(prints, 1)
    os.dup2(prints, 2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")


def watch(world: int, printed: int, most: float) -> tuple[str, bytes]:
    """Until the world has ended, is not wanted or is too large: why, and the end of what it printed."""
    said = b""
    ended = os.pidfd_open(world)
    os.set_blocking(printed, False)
    waiting = select.poll()
    for descriptor, what in ((0, 0), (ended, select.POLLIN), (printed, select.POLLIN)):
        waiting.register(descriptor, what)  # 0: hang-ups only
    look = time.monotonic()
    while True:
        events = dict(waiting.poll(1000 * LOOK_SECONDS))
        if printed in events:
            more = taken(printed)
            said = (said + more)[-LAST_WORDS:]
            if not more:  # nobody is left who could print
                waiting.unregister(printed)
        if 0 in events:
            return "unwanted", said
        if ended in events:
            return "ended", said
        if time.monotonic() - look >= LOOK_SECONDS:
            look = time.monotonic()
            if megabytes(world) > most:
                return "large", said


def taken(printed: int) -> bytes:
    """What there is to read now."""
    try:
        return os.read(printed, 2**16)[-LAST_WORDS:]
    except BlockingIOError:
        return b""


def last_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[-1].split())[:200] if lines else ""


def end(world: int) -> int:
    """Kill all that the world has started, until none is left. The world's wait status."""
    found, deadline = 0, time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        for each in family(os.getpid())[1:]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        try:
            while (gone := os.waitpid(-1, os.WNOHANG))[0]:
                found = gone[1] if gone[0] == world else found
        except ChildProcessError:
            break
        time.sleep(0.002)
    return found
