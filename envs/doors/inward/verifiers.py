"""Environments of verifiers: `verifiers` with `id=` the name of an installed taskset, such as `my_taskset`.

    seed, utterance --> {"begin": 3}, {"say": ...}   a line each, to a process of the environment's own
    what a seat is asked, rewards <-- {"seat": ..., "text": ...}, {"over": {...}}

The package needs older versions of some that Parley is pinned to. So it lives in a virtual environment of its own,
whose Python is the option `python`, and each game object starts a process there (`envs.doors.inward.verifiers_host`),
which lasts over many episodes. A process that hangs or ends is one episode's failure; the next one has a new process.

    seats         the environment's agents; of a plain taskset one, `agent`
    utterance     the whole message of the seat, plain text; of a lone seat with its thoughts, which parsers of
                  verifiers may ask for
    observation   the messages that are new to the seat; its system prompt is the briefing
    outcome       the sum of a seat's rewards, put from `returns` = [worst, best] to [0, 1]

Tasks that need tools or a container cannot be played: a seat only talks.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from envs.doors.inward.imported import ImportedGame, WorldError, paid_by, returns_of, settings_of, share_of
from envs.game import Step
from envs.options import Returns, whole_number, words
from envs.processes.command import guarded

HOST = Path(__file__).with_name("verifiers_host.py")
LONGEST_END_SECONDS = 20.0
LONGEST_START_SECONDS = 120.0  # of a process: it imports verifiers and loads the tasks
HOW_TO_GET_IT = "python -m venv VENV && VENV/bin/pip install verifiers, and name it: python=VENV/bin/python"


class VerifiersGame(ImportedGame):
    name = "verifiers"
    seats: tuple[str, ...] = ()
    slow = True
    longest = 20_000

    def __init__(
        self,
        id: Annotated[str, "the name of an installed taskset"] = "",
        settings: Annotated[dict | None, "of the taskset, as verifiers takes them"] = None,
        environment: Annotated[
            str, "the id of an environment of verifiers that plays the taskset; empty: the taskset's own"
        ] = "",
        python: Annotated[str, "of the virtual environment that has verifiers; empty: Parley's own"] = "",
        tasks: Annotated[int, "how many of the taskset's tasks are played at most"] = 100,
        first: Annotated[int, "the number of the first one"] = 0,
        returns: Returns = (0.0, 1.0),
        turns: Annotated[int, "until it is truncated"] = 20,
        seconds: Annotated[float, "time limit of every wait"] = 60.0,
    ):
        super().__init__(turns)
        for option, value in (("id", id), ("environment", environment), ("python", python)):
            words(option, value)
        if not id:
            raise ValueError("game option id='' must be the name of a taskset of verifiers, such as my_taskset")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 86400:
            raise ValueError(f"game option seconds={seconds!r} must be a number of seconds above 0")
        self.id, self.settings, self.environment = id, settings_of("settings", settings), environment
        self.python, self.seconds, self.returns = python, float(seconds), returns_of(returns)
        self.tasks = whole_number("tasks", tasks, 1, 1_000_000)
        self.first = whole_number("first", first, 0, 2**31)
        asked = {"id": id, "environment": environment, "settings": self.settings, "tasks": tasks, "first": first}
        self._asked = json.dumps(asked, sort_keys=True)
        self.seats, self._tasks = _known(python or sys.executable, self._asked)
        self.hears_thoughts = len(self.seats) == 1
        self._host: Host | None = None

    def _begin(self, seed: int) -> None:
        self._asking, self._rewards = None, {}
        self._shown, self._briefings = "nothing", {}
        if self._host is None or not self._host.alive():
            self.close()
            self._host = Host(self.python or sys.executable, self._asked)
            self._host.ready()
        self._take(self._host.ask({"begin": random.Random(f"verifiers {seed}").randrange(self._tasks)}, self.seconds))

    def _take(self, answer: dict[str, Any]) -> None:
        """What the process says next: it asks a seat, or the episode is over."""
        if "failed" in answer:
            raise WorldError(f"environment {self.id}: {answer['failed']}")
        if "over" in answer:
            self._asking = None
            paid = {seat: paid_by(f"environment {self.id}", reward) for seat, reward in answer["over"].items()}
            self._rewards = {seat: paid.get(seat, 0.0) for seat in self.seats}
            return
        self._asking = answer["seat"]
        if self._asking not in self.seats:
            raise WorldError(f"environment {self.id}: it asks {self._asking!r}, who is no agent of it")
        self._shown = answer["text"].strip() or "nothing"
        if answer["system"]:
            self._briefings[self._asking] = answer["system"]

    def _acting(self) -> str | None:
        return self._asking

    def _say(self, utterance: str) -> Step:
        seat = self._asking
        self._take(self._host.ask({"say": utterance}, self.seconds))
        over = self._asking is None
        return Step(
            rewards={each: reward for each, reward in self._rewards.items() if reward} if over else {},
            terminated=over,
            caption=f"{seat} says: {utterance[:200]}",
        )

    def briefing(self, seat: str) -> str:
        known = self._briefings.get(seat) if self._seed is not None else None
        return known or "You are asked by an environment. Answer each message with your own and nothing else."

    def observe(self) -> str:
        return self._shown

    def outcome(self) -> dict[str, float]:
        over = self._seed is not None and self.seat is None
        return {seat: share_of(self._rewards.get(seat, 0.0), self.returns) if over else 0.0 for seat in self.seats}

    def close(self) -> None:
        if self._host is not None:
            self._host.close()
        self._host = None

    def _options(self) -> dict[str, Any]:
        return {"id": self.id}


class Host:
    """A process with one environment in it, and a guard that ends whatever it starts. Where it fails, the last line
    that it printed says why."""

    def __init__(self, python: str, asked: str):
        self.python, self.id = python, json.loads(asked)["id"]
        if shutil.which(python) is None:
            raise ValueError(f"game option python={python!r} cannot be run: no such program; {HOW_TO_GET_IT}")
        self.printed = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            guarded([python, "-P", str(HOST), asked]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.printed,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self.buffer = b""
        self.end = weakref.finalize(self, _end, self.process, self.printed)

    def ready(self) -> tuple[tuple[str, ...], int]:
        """Its seats, and how many tasks it has."""
        try:
            answer = self._read(LONGEST_START_SECONDS)
        except WorldError as error:
            self.close()
            if "No module named 'verifiers'" in str(error):
                missing = f"game 'verifiers' needs the package 'verifiers', which {self.python} does not have"
                raise ValueError(f"{missing}: {HOW_TO_GET_IT}") from None
            raise ValueError(str(error)) from None
        if "refused" in answer:
            self.close()
            raise ValueError(f"game option id={self.id!r} cannot be made: {answer['refused']}")
        return tuple(answer["seats"]), int(answer["tasks"])

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        with suppress(OSError):  # where it has ended, reading says why
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        return self._read(seconds)

    def _read(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        pipe = self.process.stdout.fileno()
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN | select.POLLHUP)
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not waiting.poll(1000 * left):
                self.close()
                raise WorldError(
                    f"environment {self.id}: no answer within {seconds:g} s, so its process was ended; "
                    "if it needs longer, raise the game option seconds"
                )
            more = os.read(pipe, 2**20)
            if not more:
                code, why = self.process.wait(), self._last_words()
                self.close()
                raise WorldError(f"environment {self.id}: its process ended with code {code}{why}")
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def _last_words(self) -> str:
        self.printed.seek(0)
        line = self.printed.read().decode("utf-8", "replace").strip()
        return f": {line}" if line else ""

    def alive(self) -> bool:
        return self.end.alive and self.process.poll() is None

    def close(self) -> None:
        self.end()


def _end(process: subprocess.Popen, printed: Any) -> None:
    process.terminate()  # the guard: it kills all that belongs to it first
    try:
        process.wait(LONGEST_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for each in (process.stdin, process.stdout, printed):
        with suppress(OSError):  # a line that nobody took
            each.close()


@lru_cache(maxsize=64)
def _known(python: str, asked: str) -> tuple[tuple[str, ...], int]:
    """What an environment says of itself is asked once in a process."""
    host = Host(python, asked)
    try:
        return host.ready()
    finally:
        host.close()
