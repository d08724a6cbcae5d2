"""Games whose world works in a process of its own: `reset` leases one of `envs.processes`, and the end gives it back.

A subclass says which kind of process, what the world in it is made with, and in coroutines how an episode begins and
what an utterance does:

    kind = Kind("nethack", "envs.worlds.nethack.inside:Dungeon", megabytes=500)

    def _made_with(self): return {"task": self.task}
    async def _begin(self, seed): self._shown = await self.call("reset", seed)
    async def _say(self, utterance): ... await self.call("step", action) ... return Step(...)

`_acting`, `observe`, `outcome` and the rest are as in any imported game.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from envs.doors.inward.imported import ImportedGame
from envs.game import Step
from envs.options import whole_number
from envs.processes.pool import Lease, lease
from envs.processes.process import Kind


class HostedGame(ImportedGame):
    kind: ClassVar[Kind]

    def __init__(self, turns: int, processes: int | None = None):
        """`processes`: at most so many of them at the same time in one worker; the episodes that find none wait."""
        super().__init__(turns)
        self._kind = self.kind
        self._lease: Lease | None = None
        if processes is not None:
            self._kind = replace(self.kind, processes=whole_number("processes", processes, 1, 10_000))

    @property
    def at_once(self) -> int:
        return self._kind.processes

    def _made_with(self) -> dict[str, Any]:
        """Options of the world's class."""
        return {}

    async def _begin(self, seed: int) -> None:
        raise NotImplementedError

    async def _say(self, utterance: str) -> Step:
        raise NotImplementedError

    async def call(self, method: str, *arguments: Any) -> Any:
        """A method of the world."""
        return await self._lease.call(method, *arguments)

    async def reset(self, seed: int) -> None:
        self._seed = None  # no seat may act if the beginning fails
        self.close()
        self._lease = await lease(self._kind, **self._made_with())
        with self._giving_back():
            await self._begin(seed)
            self._begun(seed)

    async def step(self, utterance: str) -> Step:
        said = self._heard(utterance)
        with self._giving_back():
            return self._written(said, await self._say(said))

    @contextmanager
    def _giving_back(self) -> Iterator[None]:
        """No game that is over or has failed keeps a process: others wait for it."""
        try:
            yield
        except BaseException:
            self.close()
            self._seed = None
            raise
        if self.seat is None:
            self.close()

    def close(self) -> None:
        """Give the process back."""
        if self._lease is not None:
            self._lease.release()
        self._lease = None
