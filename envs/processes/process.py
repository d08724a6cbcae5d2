"""One world in its process, as the pool sees it. Used in the event loop of `envs.coroutines`, by one call at a time.

    starting --made--> ready <--call--> busy
                          |              | crashed, hung, too large, raised, no JSON, nobody waits for the answer
                          +----end-------+--> ended            no way leads back from there

What a call raises has the name of what happened (`failures`), and the world is ended then, whatever it was: nobody
knows what state it is in.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from envs.processes.failures import WorldCrashed, WorldHung, WorldRaised, WorldRefused, WorldSpokeNoJSON, WorldTooLarge
from envs.processes.family import megabytes
from envs.processes.serving import LENGTH, written

log = logging.getLogger("parley.processes")
START = "from parley.names import put_first; put_first(); from envs.processes.guard import main; main()"
END_SECONDS = 20.0
LARGEST = 2**24  # bytes of one answer


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of worlds: which class, and what a process of it may take."""

    name: str  # for whoever reads a failure
    of: str  # "module:Class", which only the process of the world imports
    processes: int = 16  # at most, at the same time
    megabytes: int = 1000  # above it a process is not used for another episode; above twice that it is ended at once
    seconds: float = 60.0  # longest call
    start_seconds: float = 120.0


def begun(kind: Kind, options: str) -> tuple[subprocess.Popen, socket.socket]:
    """A guard that is about to fork its world, and our end of the wire."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    asked = {"wire": theirs.fileno(), "of": kind.of, "options": json.loads(options), "megabytes": 2 * kind.megabytes}
    with theirs:
        guard = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # an interrupt from the keyboard is for us
        )
    return guard, ours


class Process:
    def __init__(self, kind: Kind, options: str, guard: subprocess.Popen, wire: socket.socket):
        """`options`: of the world, as JSON."""
        self.kind, self.options, self.guard, self.wire = kind, options, guard, wire
        self.pid = 0  # of the world
        self.answers = bytearray()
        self.answer: asyncio.Future | None = None
        self.closed = self.ended = False  # by the world, by us
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.wire, self._read)

    async def made(self) -> None:
        """Wait until the world is there."""
        found = await self._answered("its start", self.kind.start_seconds)
        if "refused" in found:
            self.end()
            raise WorldRefused(f"{self.kind.name} cannot be made: {found['refused']}")
        self.pid = found["made"]

    async def call(self, method: str, *arguments: Any) -> Any:
        message = written([method, *arguments])
        if self.ended:
            raise WorldCrashed(f"{self.kind.name}: its process has ended already")
        try:
            self._send(message)
            found = await self._answered(method, self.kind.seconds)
        except BaseException:
            self.end()
            raise
        if "is" in found:
            return found["is"]
        self.end()
        if "raised" in found:
            raise WorldRaised(f"{self.kind.name}: {method} raised {found['raised']}")
        raise WorldSpokeNoJSON(f"{self.kind.name}: {method} answered with what is no JSON: {found['no_json']}")

    def _send(self, message: bytes) -> None:
        try:
            sent = self.wire.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:  # it has ended: what is read says why
            return
        if sent < len(message):
            self.loop.add_writer(self.wire, self._send_rest, memoryview(message)[sent:])

    def _send_rest(self, message: memoryview) -> None:
        self.loop.remove_writer(self.wire)
        self._send(message)

    async def _answered(self, what: str, seconds: float) -> dict[str, Any]:
        self.answer = self.loop.create_future()
        self._look()
        late = WorldHung(f"{self.kind.name}: {what} did not end within {seconds:g} s, and its process was ended")
        limit = self.loop.call_later(seconds, self._refuse, late)
        try:
            found = await self.answer
        except BaseException:
            self.end()
            raise
        finally:
            limit.cancel()
            self.answer = None
        if found is not None:
            return found
        self._close()
        raise await asyncio.to_thread(self._failure, what)

    def _refuse(self, failure: Exception) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(failure)

    def _read(self) -> None:
        try:
            piece = self.wire.recv(2**18)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self.answers += piece
        if not piece:
            self.loop.remove_reader(self.wire)
            self.closed = True
        self._look()

    def _look(self) -> None:
        """Hand on an answer that is there whole; None where there will be none."""
        if self.answer is None or self.answer.done():
            return
        start, had = LENGTH.size, len(self.answers)
        length = LENGTH.unpack(self.answers[:start])[0] if had >= start else 0
        if length > LARGEST:
            self._refuse(WorldSpokeNoJSON(f"{self.kind.name}: an answer of {length} bytes; at most {LARGEST} are read"))
        elif had >= start + length > start:
            self.answer.set_result(json.loads(self.answers[start : start + length]))
            del self.answers[: start + length]
        elif self.closed:
            self.answer.set_result(None)

    def _failure(self, what: str) -> Exception:
        """Why the process has ended, by the guard's word."""
        with suppress(subprocess.TimeoutExpired):  # the world has hung up and lives
            self.guard.wait(END_SECONDS / 10)
        said = self._reaped()
        try:
            report = json.loads(said)
        except ValueError:  # the guard's own last words
            return WorldCrashed(f"{self.kind.name}: its process did not start: {' '.join(said.split())[-200:]}")
        if report["why"] == "large":
            most = 2 * self.kind.megabytes
            return WorldTooLarge(f"{self.kind.name}: it took more than {most} MB during {what}, and was ended")
        code = os.waitstatus_to_exitcode(report["status"])
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        words = f"; its last words: {report['said']}" if report["said"] else ""
        return WorldCrashed(f"{self.kind.name}: its process ended {how} during {what}{words}")

    def _reaped(self) -> str:
        """End the guard, and with it the world; what the guard reported."""
        self.guard.stdin.close()
        try:
            self.guard.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.guard.kill()  # the kernel kills the world
            self.guard.wait()
        with self.guard.stdout as report:
            return report.read().decode("utf-8", "replace")

    def is_small(self) -> bool:
        return megabytes(self.pid) <= self.kind.megabytes

    def let_go(self) -> None:
        """Close our ends of it, and do nothing else."""
        self.wire.close()
        self.guard.stdin.close()

    def end(self) -> None:
        """Soon there is neither process nor world; nobody waits for it."""
        if not self.ended:
            self._close()
            threading.Thread(target=self._reaped, name="end of a world", daemon=True).start()

    def _close(self) -> None:
        self.ended = self.closed = True
        self.loop.remove_reader(self.wire)
        self.loop.remove_writer(self.wire)
        self.wire.close()
