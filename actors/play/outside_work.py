"""What episodes wait for outside the engines: games that work in a thread or as a coroutine, and servers.

    begin(key, work, then) --> waiting --finished()--> (key, work, then)
                                  |
                                  +----- give_up(key) ----> nobody's

Keys are unique for all time. A time limit does not count while work waits for a thread or a connection. Work that was
given up is cancelled if it waits or is a coroutine. A thread cannot be stopped: one that hangs keeps its place. When
such threads take half of the places, new threads replace them all.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

log = logging.getLogger("parley.outside_work")


@dataclass(slots=True)
class Waiting:
    work: Future
    then: Callable[[Any], None]
    timed: bool  # whether a turn's time limit holds for it
    begun: Callable[[], bool]
    call: Callable[[], Any] | None  # of a thread
    since: float | None = None  # when it was first seen to have begun


class LeftBehind(NamedTuple):
    """Of work that was given up and goes on in a thread."""

    threads: ThreadPoolExecutor
    game: str
    since: float


class Queued(NamedTuple):
    """Work that may have to wait before it begins."""

    work: Future
    begun: Callable[[], bool]
    call: Callable[[], Any] | None = None  # of a thread


class Done(NamedTuple):
    key: int
    work: Future
    then: Callable[[Any], None]  # what to do with the result


class OutsideWork:
    def __init__(self, threads: int):
        self.size = threads
        self.threads = self._new_threads()  # none is started before it has work
        self.waiting: dict[int, Waiting] = {}
        self.left_behind: dict[Future, LeftBehind] = {}
        self.done: SimpleQueue[tuple[int, Future]] = SimpleQueue()

    def _new_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.size, thread_name_prefix="slow-game")

    def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Queued:
        call = partial(call, *arguments)
        work = self.threads.submit(call)
        return Queued(work, work.running, call)

    def begin(self, key: int, work: Future | Queued, then: Callable[[Any], None], timed: bool = True) -> None:
        work, begun, call = work if isinstance(work, Queued) else Queued(work, lambda: True)
        self.waiting[key] = Waiting(work, then, timed, begun, call, time.monotonic() if begun() else None)
        work.add_done_callback(lambda work: self.done.put((key, work)))

    def finished(self, wait_seconds: float) -> list[Done]:
        """What is done, in the order of the keys; waits so long for the first."""
        found: list[Done] = []
        if not self.waiting and self.left_behind:  # episodes may wait for what was given up to end
            time.sleep(wait_seconds)
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
        now = time.monotonic()
        for each in self.waiting.values():
            if each.since is None and each.begun():
                each.since = now
        return [
            key
            for key, each in self.waiting.items()
            if each.timed and each.since is not None and each.since < now - seconds
        ]

    def give_up(self, key: int, game: str = "") -> None:
        """Whatever the key waited for is no longer wanted."""
        waiting = self.waiting.pop(key, None)
        if waiting is None or waiting.work.cancel() or waiting.work.done():
            return
        # only a thread's work cannot be cancelled
        self.left_behind[waiting.work] = LeftBehind(self.threads, game, time.monotonic())
        waiting.work.add_done_callback(lambda work: self.left_behind.pop(work, None))
        if 2 * self.hung >= self.size:
            log.warning("%d of %d threads hang in games that were given up: new threads", self.hung, self.size)
            self.threads.shutdown(wait=False)  # what they have begun goes on
            self.threads = self._new_threads()
            for other, each in list(self.waiting.items()):
                if each.call is not None and each.work.cancel():
                    self.begin(other, self.in_thread(each.call), each.then, each.timed)

    @property
    def hung(self) -> int:
        """Threads of this pool that work for nobody."""
        return sum(each.threads is self.threads for each in [*self.left_behind.values()])

    def still_played(self, seconds: float) -> Counter[str]:
        """By game, what was given up in the last `seconds` and still goes on."""
        oldest = time.monotonic() - seconds
        return Counter(each.game for each in [*self.left_behind.values()] if each.since >= oldest)

    def close(self) -> None:
        """Work that has begun in a thread ends by its own time limit; nobody waits for it."""
        for key in list(self.waiting):
            self.waiting.pop(key).work.cancel()
        self.threads.shutdown(wait=False, cancel_futures=True)
