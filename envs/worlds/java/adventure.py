"""A text adventure that a Java machine plays: an episode has a place in a shared process from its beginning to its end.

A world says to `begin` and to `step` what is seen as {"text", "score", "over", ...}. It is deterministic, so an episode
whose process was ended by somebody else's call is played again in another one, unseen, and goes on.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from envs.doors.inward.imported import ImportedGame, WorldError
from envs.game import Step
from envs.options import whole_number
from envs.processes.process import Kind
from envs.worlds.java.machine import java
from envs.worlds.java.shared import Gone, Place, enter

SEAT = "adventurer"
MOVES = 3  # to another process, at most, in one call


class Adventure(ImportedGame):
    seats = (SEAT,)
    kind: ClassVar[Kind]
    per_process: ClassVar[int]  # episodes in one process

    def __init__(self, turns: int, processes: int):
        super().__init__(turns)
        java()
        self.where = replace(self.kind, processes=whole_number("processes", processes, 1, 1000))
        self.at_once = self.per_process * processes
        self._forget()

    def _forget(self) -> None:
        self._seed: int | None = None
        self._place: Place | None = None
        self._asked: dict[str, Any] = {}
        self._commands: list[str] = []  # that the world has heard
        self._score, self._over = 0.0, False

    async def reset(self, seed: int) -> None:
        self._leave()
        self._forget()
        self._asked = self._chosen(seed)
        self._open(await self._play())
        self._begun(seed)

    async def step(self, utterance: str) -> Step:
        said = self._heard(utterance)
        command = self._command(said)
        if command is None:
            step = self._written(said, self._refused())
        else:
            step = self._written(said, self._answered(command, await self._play(command)))
        if self.seat is None:
            self._leave()
        return step

    def _leave(self) -> None:
        if self._place is not None:
            self._place.leave()
            self._place = None

    async def _play(self, command: str | None = None) -> dict[str, Any]:
        """What is seen at the beginning, or after a command."""
        for _ in range(MOVES):
            try:
                if self._place is None:
                    self._place = await enter(self.where, self.per_process)
                    found = await self._place.call("begin", self._asked)
                    for before in self._commands:
                        found = await self._place.call("step", before)
                if command is not None:
                    found = await self._place.call("step", command)
                    self._commands.append(command)
                return found
            except Gone:
                self._leave()
            except BaseException:
                self._leave()
                raise
        raise WorldError(f"{self.name}: its process was ended {MOVES} times by other episodes")

    @abstractmethod
    def _chosen(self, seed: int) -> dict[str, Any]:
        """What the world is to begin."""

    @abstractmethod
    def _open(self, found: dict[str, Any]) -> None:
        """Take in what is seen first."""

    @abstractmethod
    def _command(self, said: str) -> str | None:
        """What is handed on of an utterance; None: nothing."""

    @abstractmethod
    def _refused(self) -> Step:
        """Nothing was handed on."""

    @abstractmethod
    def _answered(self, command: str, found: dict[str, Any]) -> Step:
        """Take in what a command did."""

    def _acting(self) -> str | None:
        return None if self._over else SEAT

    @property
    def ended(self) -> bool:
        return self._seed is not None and self.seat is None
