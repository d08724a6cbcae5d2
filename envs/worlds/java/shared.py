"""Many episodes in one process: a Java machine is large, and one of its episodes is small.

    enter(kind, rooms) --> Room in the first process with one to spare, or in a new one; else it waits
    room.call(what, ...)   one call of a process at a time
    room.leave()           an empty process goes back to the pool, which ends it where it has grown too large

    rooms taken <= rooms * kind.processes

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

WAIT_SECONDS = 600.0  # for a room
ASIDE_SECONDS = 500.0  # of one call beside the episodes: some worlds take long to solve


class Gone(Exception):
    """Somebody else's call has ended the process."""


class House:
    """One process and who is in it."""

    def __init__(self, kind: Kind):
        self.lease: asyncio.Task[Lease] = asyncio.ensure_future(lease(kind))
        self.guests = 0
        self.turn = asyncio.Lock()
        self.over = False

    async def call(self, method: str, *arguments: Any) -> Any:
        async with self.turn:
            if self.over:
                raise Gone
            try:
                return await (await asyncio.shield(self.lease)).call(method, *arguments)
            except BaseException:
                self.over = True
                raise


class Street:
    """All processes of one kind."""

    def __init__(self, kind: Kind, rooms: int):
        self.kind, self.rooms = kind, rooms
        self.houses: list[House] = []
        self.free = asyncio.Semaphore(rooms * kind.processes)
        self.entered = 0

    async def enter(self) -> Room:
        try:
            await asyncio.wait_for(self.free.acquire(), WAIT_SECONDS)
        except TimeoutError:
            raise NoProcessFree(
                f"{self.kind.name}: all {self.rooms * self.kind.processes} places were taken for {WAIT_SECONDS:g} s: "
                "raise the game option processes, or play fewer episodes at once"
            ) from None
        self.houses = [each for each in self.houses if not each.over]
        house = next((each for each in self.houses if each.guests < self.rooms), None)
        if house is None:
            house = House(self.kind)
            self.houses.append(house)
        house.guests += 1
        self.entered += 1
        return Room(self, house, self.entered)

    def left(self, house: House, number: int) -> None:
        self.free.release()
        house.guests -= 1
        leaving = asyncio.ensure_future(self._leave(house, number))
        _leaving.add(leaving)
        leaving.add_done_callback(_leaving.discard)

    async def _leave(self, house: House, number: int) -> None:
        with suppress(Gone, OutsideError, ValueError):  # of a process that has ended there is nothing to leave
            await house.call("leave", number)
        if house.guests == 0 and not house.over:
            house.over = True
            (await house.lease).release()


_leaving: set[asyncio.Task] = set()  # the loop itself keeps none of them alive


class Room:
    """One episode's part of a process. One that is forgotten is left."""

    def __init__(self, street: Street, house: House, number: int):
        self._house, self._number = house, number
        self.leave = weakref.finalize(self, asyncio.get_running_loop().call_soon_threadsafe, street.left, house, number)
        self.leave.atexit = False

    async def call(self, what: str, *arguments: Any) -> Any:
        found = await self._house.call("ask", self._number, what, *arguments)
        if "raised" in found:
            raise WorldRaised(found["raised"])
        return found["is"]


_streets: dict[tuple[Kind, int], Street] = {}
os.register_at_fork(after_in_child=_streets.clear)


async def enter(kind: Kind, rooms: int) -> Room:
    if (kind, rooms) not in _streets:
        _streets[kind, rooms] = Street(kind, rooms)
    return await _streets[kind, rooms].enter()


def aside(kind: Kind, rooms: int, work: Callable[[Room], Awaitable[Any]]) -> Any:
    """Work in a room of a process that no episode is in, so that nobody waits for it whose episode holds a room."""

    async def entered() -> Any:
        apart = replace(kind, name=f"{kind.name} (beside the episodes)", processes=1, seconds=ASIDE_SECONDS)
        room = await enter(apart, rooms)
        try:
            return await work(room)
        finally:
            room.leave()

    return finish(entered(), f"work beside the episodes of {kind.name}")
