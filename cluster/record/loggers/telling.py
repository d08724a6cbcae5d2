"""One logger in a thread of its own, so that a tool that is slow or away keeps nobody waiting.

told = taken + lost (it failed, there was no room, or the run has ended) + waiting, and waiting <= MOST_WAITING
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

MOST_WAITING = 1000  # calls
END_SECONDS = 30.0  # for what still waits at the end

log = logging.getLogger("parley")


class Call(NamedTuple):
    number: int
    what: str
    tell: Callable[[Any], None]


class Telling:
    """`make`: the logger. One that cannot be made is tried again with the next call."""

    def __init__(self, name: str, make: Callable[[], Any]):
        self.name, self.make = name, make
        self.logger: Any = None
        self.told = 0
        self.lost: dict[int, str] = {}  # calls that it has not taken
        self.doing: Call | None = None
        self.waiting: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self.tell("its start", lambda logger: None)
        self.thread = threading.Thread(target=self._run, name=f"logger {name}", daemon=True)
        self.thread.start()

    def tell(self, what: str, tell: Callable[[Any], None]) -> None:
        self.told += 1
        call = Call(self.told, what, tell)
        if self.waiting.qsize() < MOST_WAITING:
            self.waiting.put(call)
        else:
            self._lose(call, f"{MOST_WAITING} calls wait for it already")

    def end(self) -> None:
        """Nothing is told after it."""
        self.waiting.put(None)

    def wait(self, until: float) -> None:
        """For what has been told, until then at most."""
        self.thread.join(max(0.0, until - time.monotonic()))
        if self.thread.is_alive():
            self._give_up()
        if self.lost:
            first, last = self.lost[min(self.lost)], self.lost[max(self.lost)]
            which = first if len(self.lost) == 1 else f"{first} to {last}"
            log.warning(
                "the logger %s has not taken %d of %d calls (%s); metrics.jsonl has the numbers",
                *(self.name, len(self.lost), self.told, which),
            )

    def _give_up(self) -> None:
        left = [self.doing] if self.doing else []
        with suppress(queue.Empty):
            while (call := self.waiting.get_nowait()) is not None:
                left.append(call)
        for call in left:
            self._lose(call, "it does not answer at the end of the run")
        self.end()

    def _run(self) -> None:
        while (call := self.waiting.get()) is not None:
            self.doing = call
            try:
                if self.logger is None:
                    self.logger = self.make()
                call.tell(self.logger)
            except BaseException as error:  # a tool that would end the process ends no thread, either
                self._lose(call, f"{type(error).__name__}: {error}")

    def _lose(self, call: Call, why: str) -> None:
        if not self.lost:
            log.warning("the logger %s failed, the run goes on: %s: %s", self.name, call.what, why)
        self.lost[call.number] = call.what
