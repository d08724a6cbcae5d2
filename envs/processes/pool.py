"""So many processes of each kind of world, each leased to one episode after the other.

    lease(kind, options) --> an idle process that was made with these options, or a new one; else it waits
    lease.call(method, ...)                what the world answers
    lease.release() --> the process is idle, or ended where it has grown too large

    leased + idle <= kind.processes

A lease that is forgotten is released. One whose call failed has no process any more, and its place is free. An idle
process with other options makes room for one that is wanted. All is done in the event loop of `envs.coroutines`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import weakref
from typing import Any

from envs.processes.failures import NoProcessFree, WorldCrashed
from envs.processes.process import Kind, Process, begun

log = logging.getLogger("parley.processes")
WAIT_SECONDS = 600.0  # for a process that is free


class Pool:
    def __init__(self, kind: Kind):
        self.kind = kind
        self.places = asyncio.Semaphore(kind.processes)
        self.idle: list[Process] = []
        self.leased = self.started = 0

    async def take(self, options: str) -> Process:
        try:
            await asyncio.wait_for(self.places.acquire(), WAIT_SECONDS)
        except TimeoutError:
            raise NoProcessFree(
                f"{self.kind.name}: all {self.kind.processes} processes were taken for {WAIT_SECONDS:g} s: raise the "
                "game option processes, or play fewer episodes at once"
            ) from None
        self.leased += 1
        try:
            return self._idle_with(options) or await self._new(options)
        except BaseException:
            self._free()
            raise

    def _idle_with(self, options: str) -> Process | None:
        self.idle = [each for each in self.idle if not each.closed]
        found = next((each for each in self.idle if each.options == options), None)
        if found is not None:
            self.idle.remove(found)
        return found

    async def _new(self, options: str) -> Process:
        while self.idle and self.leased + len(self.idle) > self.kind.processes:
            self.idle.pop(0).end()
        self.started += 1
        process = Process(self.kind, options, *await asyncio.to_thread(begun, self.kind, options))
        _all.add(process)
        await process.made()
        return process

    def back(self, process: Process) -> None:
        if process.closed:
            process.end()
        elif process.is_small():
            self.idle.append(process)
        else:
            log.warning("%s: a process has grown above %d MB and is replaced", self.kind.name, self.kind.megabytes)
            process.end()
        self._free()

    def _free(self) -> None:
        self.leased -= 1
        self.places.release()


class Lease:
    """A world for one episode."""

    def __init__(self, pool: Pool, process: Process):
        self._process = process
        self.release = weakref.finalize(self, asyncio.get_running_loop().call_soon_threadsafe, pool.back, process)
        self.release.atexit = False

    async def call(self, method: str, *arguments: Any) -> Any:
        """What the world's method returns; a named failure (`failures`) ends the world."""
        if not self.release.alive:
            raise WorldCrashed("the world was given back, and is another episode's now")
        return await self._process.call(method, *arguments)


_pools: dict[Kind, Pool] = {}
_all: weakref.WeakSet[Process] = weakref.WeakSet()


async def lease(kind: Kind, **options: Any) -> Lease:
    """A world of this kind that was made with these options."""
    pool = _pools.setdefault(kind, Pool(kind))
    return Lease(pool, await pool.take(json.dumps(options, sort_keys=True)))


def started(kind: Kind) -> int:
    """How many processes of this kind were started so far."""
    return _pools[kind].started if kind in _pools else 0


def _forget() -> None:
    """In a forked child the worlds are its parent's: they must not live as long as it."""
    for process in list(_all):
        process.let_go()
    _pools.clear()


os.register_at_fork(after_in_child=_forget)
