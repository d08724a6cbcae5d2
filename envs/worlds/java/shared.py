"""Many episodes in one process: a Java machine is large, and one of its episodes is small.

    enter(kind, per_process) --> Place in the first process with one to spare, or in a new one; else it waits
    place.call(what, ...)        one call of a process at a time
    place.leave()                an empty process goes back to the pool, which ends it where it has grown too large

    places taken <= per_process * kind.processes

Whose own call ends the process (it crashed, hung, grew) gets the pool's named failure. The others in it find `Gone` at
their next call: nothing of theirs has failed, and they may begin again in another process.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from envs.coroutines import finish
from envs.outside import OutsideError
from envs.processes.failures import NoProcessFree, WorldRaised
from envs.processes.pool import Lease, lease
from envs.processes.process import Kind

WAIT_SECONDS = 600.0  # for a place
ASIDE_SECONDS = 500.0  # of one call beside the episodes: some worlds take long to solve


class Gone(Exception):
    """Somebody else's call has ended the process."""


class SharedProcess:
    """One process, and how many episodes are in it."""

    def __init__(self, kind: Kind):
        self.lease: asyncio.Task[Lease] = asyncio.ensure_future(lease(kind))
        self.episodes = 0
        self.turn = asyncio.Lock()
        self.ended = False

    async def call(self, method: str, *arguments: Any) -> Any:
        async with self.turn:
            if self.ended:
                raise Gone
            try:
                return await (await asyncio.shield(self.lease)).call(method, *arguments)
            except BaseException:
                self.ended = True
                raise


class SharedPool:
    """All processes of one kind."""

    def __init__(self, kind: Kind, per_process: int):
        self.kind, self.per_process = kind, per_process
        self.processes: list[SharedProcess] = []
        self.free = asyncio.Semaphore(per_process * kind.processes)
        self.entered = 0

    async def enter(self) -> Place:
        try:
            await asyncio.wait_for(self.free.acquire(), WAIT_SECONDS)
        except TimeoutError:
            raise NoProcessFree(
                f"{self.kind.name}: all {self.per_process * self.kind.processes} places were taken for "
                f"{WAIT_SECONDS:g} s: raise the game option processes, or play fewer episodes at once"
            ) from None
        self.processes = [each for each in self.processes if not each.ended]
        process = next((each for each in self.processes if each.episodes < self.per_process), None)
        if process is None:
            process = SharedProcess(self.kind)
            self.processes.append(process)
        process.episodes += 1
        self.entered += 1
        return Place(self, process, self.entered)

    def left(self, process: SharedProcess, number: int) -> None:
        self.free.release()
        process.episodes -= 1
        leaving = asyncio.ensure_future(self._leave(process, number))
        _leaving.add(leaving)
        leaving.add_done_callback(_leaving.discard)

    async def _leave(self, process: SharedProcess, number: int) -> None:
        with suppress(Gone, OutsideError, ValueError):  # of a process that has ended there is nothing to leave
            await process.call("leave", number)
        if process.episodes == 0 and not process.ended:
            process.ended = True
            (await process.lease).release()


_leaving: set[asyncio.Task] = set()  # the loop itself keeps none of them alive


class Place:
    """One episode's part of a process. One that is forgotten is left."""

    def __init__(self, pool: SharedPool, process: SharedProcess, number: int):
        self._process, self._number, self._of = process, number, pool.kind.name
        self.leave = weakref.finalize(self, asyncio.get_running_loop().call_soon_threadsafe, pool.left, process, number)
        self.leave.atexit = False

    async def call(self, what: str, *arguments: Any) -> Any:
        found = await self._process.call("ask", self._number, what, *arguments)
        if "raised" in found:
            raise WorldRaised(f"{self._of}: {found['raised']}")
        return found["is"]


_pools: dict[tuple[Kind, int], SharedPool] = {}
os.register_at_fork(after_in_child=_pools.clear)


async def enter(kind: Kind, per_process: int) -> Place:
    if (kind, per_process) not in _pools:
        _pools[kind, per_process] = SharedPool(kind, per_process)
    return await _pools[kind, per_process].enter()


def aside(kind: Kind, per_process: int, work: Callable[[Place], Awaitable[Any]]) -> Any:
    """Work in a place of a process that no episode is in, so that nobody waits for it whose episode holds a place."""

    async def entered() -> Any:
        apart = replace(kind, name=f"{kind.name} (beside the episodes)", processes=1, seconds=ASIDE_SECONDS)
        place = await enter(apart, per_process)
        try:
            return await work(place)
        finally:
            place.leave()

    return finish(entered(), f"work beside the episodes of {kind.name}")
