"""Long computations, apart from the traffic: in a process of their own, which gives way to everything else.

A thread that computes shares the interpreter with those that answer, and a low priority would only make
that worse: it would be put aside while it holds what the others wait for. So the work goes to another
process, of a low priority; only what it is given and what it finds passes through here, arrays as they
lie in memory. The priority is not the lowest: where all cores are busy, that is one part in 70 of a core.

A process has one such companion. It is started when first needed and ends when this process does, however
it ends. Work waits for the work before it.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

LONGEST_SECONDS = 3600.0  # of one piece of work
END_SECONDS = 10.0
NICENESS = 5  # a quarter of a core where all are busy
START = "from parley.names import put_first; put_first(); from reward_service.intentions.companion import main; main()"


class WorkLost(RuntimeError):
    """The process that computed is gone, or took too long."""


class Companion:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen | None = None
        self.pipe: Connection | None = None

    def compute(self, work: Callable, *given: Any, seconds: float = LONGEST_SECONDS) -> Any:
        """work(*given), which has to be found by its name: a function of a module. What it raises is raised."""
        with self.lock:
            if self.process is None or self.process.poll() is not None:
                self._start()
            started = time.monotonic()
            limit = threading.Timer(seconds, self.process.kill)
            limit.daemon = True
            limit.start()
            try:
                _send(self.pipe, (work, given))
                found, failure = _receive(self.pipe)
            except (EOFError, OSError) as error:
                code, late = self._end(), time.monotonic() - started >= seconds
                if late:
                    raise WorkLost(f"{work.__name__} took more than {seconds:g} s") from error
                raise WorkLost(f"the process that computed {work.__name__} ended with {code}") from error
            except BaseException:
                self._end()  # what it may still say answers no other question
                raise
            finally:
                limit.cancel()
        if failure is not None:
            raise failure
        return found

    def _start(self) -> None:
        self._end()
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
            )
        self.pipe = Connection(ours.detach())

    def _end(self) -> int | None:
        if self.process is None:
            return None
        self.pipe.close()
        self.process.kill()
        code = self.process.wait(END_SECONDS)
        self.process = self.pipe = None
        return code

    def close(self) -> None:
        """At the end, whoever still waits."""
        if process := self.process:
            process.kill()


_companion = Companion()
atexit.register(_companion.close)


def in_companion(work: Callable, *given: Any, seconds: float = LONGEST_SECONDS) -> Any:
    """work(*given), by this process's companion."""
    return _companion.compute(work, *given, seconds=seconds)


def _send(pipe: Connection, thing: Any) -> None:
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    pipe.send((len(content), [buffer.raw().nbytes for buffer in buffers]))
    for each in (content, *(buffer.raw() for buffer in buffers)):
        if len(each):
            pipe.send_bytes(each)


def _receive(pipe: Connection) -> Any:
    size, sizes = pipe.recv()
    content, *buffers = (bytearray(each) for each in (size, *sizes))
    for each in (content, *buffers):
        if each:
            pipe.recv_bytes_into(each)
    return pickle.loads(content, buffers=buffers)


def _serve(pipe: Connection) -> None:
    """Until nobody is there to ask."""
    while True:
        try:
            work, given = _receive(pipe)
        except EOFError:
            return
        try:
            answer = work(*given), None
        except Exception as error:
            answer = None, error
        try:
            _send(pipe, answer)
        except BrokenPipeError:
            return


def main() -> None:
    """In the process of its own: the file descriptor of the pipe is its argument."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is meant for who asks
    _serve(Connection(int(sys.argv[1])))
