"""What episodes wait for outside the engines: games that work in a thread or as a coroutine, and servers.

    begin(key, work, then) --> waiting --finished()--> (key, work, then)
                                  |
                                  +----- give_up(key) ----> nobody's

Keys are unique for all time. Work that was given up is cancelled if it waits or is a coroutine. A thread cannot be
stopped: one that hangs keeps its place, and when every other place is taken by such, new threads replace them all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

log = logging.getLogger("parley.outside_work")


@dataclass(slots=True)
class Waiting:
    work: Future
    then: Callable[[Any], None]
    since: float
    timed: bool  # whether a turn's time limit holds for it


class Done(NamedTuple):
    key: int
    work: Future
    then: Callable[[Any], None]  # what to do with the result


class OutsideWork:
    def __init__(self, threads: int):
        self.size = threads
        self.threads = self._new_threads()  # none is started before it has work
        self.hung = 0  # threads of this pool that work for nobody
        self.waiting: dict[int, Waiting] = {}
        self.done: SimpleQueue[tuple[int, Future]] = SimpleQueue()

    def _new_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.size, thread_name_prefix="slow-game")

    def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Future:
        return self.threads.submit(call, *arguments)

    def begin(self, key: int, work: Future, then: Callable[[Any], None], timed: bool = True) -> None:
        self.waiting[key] = Waiting(work, then, time.monotonic(), timed)
        work.add_done_callback(lambda work: self.done.put((key, work)))

    def finished(self, wait_seconds: float) -> list[Done]:
        """What is done, in the order of the keys; waits so long for the first."""
        found: list[Done] = []
        try:
            while self.waiting:
                wait = wait_seconds and not found
                key, work = self.done.get(timeout=wait_seconds) if wait else self.done.get_nowait()
                if key in self.waiting and self.waiting[key].work is work:
                    found.append(Done(key, work, self.waiting.pop(key).then))
        except Empty:
            pass
        return sorted(found)

    def overdue(self, seconds: float) -> list[int]:
        oldest = time.monotonic() - seconds
        return [key for key, each in self.waiting.items() if each.timed and each.since < oldest]

    def give_up(self, key: int) -> None:
        """Whatever the key waited for is no longer wanted."""
        waiting = self.waiting.pop(key, None)
        if waiting is None or waiting.work.cancel() or waiting.work.done():
            return
        self.hung += 1  # only a thread's work cannot be cancelled
        if 2 * self.hung >= self.size:
            log.warning("%d of %d threads hang in games that were given up: new threads", self.hung, self.size)
            self.threads.shutdown(wait=False)  # what it has taken on goes on
            self.threads, self.hung = self._new_threads(), 0

    def close(self) -> None:
        """Work that has begun in a thread ends by its own time limit; nobody waits for it."""
        for key in list(self.waiting):
            self.waiting.pop(key).work.cancel()
        self.threads.shutdown(wait=False, cancel_futures=True)
