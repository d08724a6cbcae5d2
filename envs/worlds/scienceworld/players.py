"""Scripted players of ScienceWorld, which know its variations: what one shows first says which it is.

gold       the package's own solution
mediocre   the same, but in some of its turns what the random one says, after which it goes on with the next command
random     any listed command; where none is listed, any verb with things that it has read of
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from envs.text.listed import Chooser
from envs.worlds.java.following import Following
from envs.worlds.scienceworld.solutions import solutions

THING = re.compile(r"^(?:an?|the) (?:substance called )?([a-z][a-z ]{0,40})(?=$| \(|,)", re.MULTILINE)
DOOR = re.compile(r"^A (door to the ([a-z ]{1,40})) \(", re.MULTILINE)
ALONE = ("look around", "inventory", "wait")
OF_ONE = ("activate", "eat", "focus on", "look at", "look in", "mix", "open", "pick up", "put down", "read")
OF_TWO = ("move {} to {}", "pour {} in {}", "use {} on {}")


class Random(Chooser):
    """Any listed command, or any verb with what it has read of: in nearly every task it soon does what cannot be
    mended."""

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.things: dict[str, None] = {"agent": None}
        self.rooms: dict[str, None] = {"kitchen": None}

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        self.things |= dict.fromkeys(THING.findall(observation))
        for door, room in DOOR.findall(observation):
            self.things[door] = self.rooms[room] = None
        return self.random.choice(actions) if actions else self.made_up()

    def made_up(self) -> str:
        things, kind = list(self.things), self.random.random()
        if kind < 0.1:
            return self.random.choice(ALONE)
        if kind < 0.3:
            return f"go to {self.random.choice(list(self.rooms))}"
        if kind < 0.8:
            return f"{self.random.choice(OF_ONE)} {self.random.choice(things)}"
        return self.random.choice(OF_TWO).format(self.random.choice(things), self.random.choice(things))


class Gold(Random):
    """The package's own solution: scores 100 in every variation where the turns suffice."""

    def __init__(
        self,
        task: str = "chemistry-mix-paint-secondary-color",
        split: str = "train",
        simplifications: str | Sequence[str] = (),
        **options: Any,
    ):
        wanted = [simplifications] if isinstance(simplifications, str) else simplifications
        self.asked = task, split, ",".join(wanted)

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.following: Following | None = None

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        if self.following is None:
            self.following = Following(solutions(*self.asked, observation))
        other = self.advice(observation, actions)  # always asked: it remembers what it reads
        if self.random.random() >= self.wisdom:
            return other
        return self.following.next(observation, ()) or "look around"


class Mediocre(Gold):
    """Gold in four of five turns: mixes the paint in two of three variations."""

    wisdom = 0.8
