"""Scripted players of BabyAI, who read what the agent is told.

seeker     takes the parts of its mission one after the other: looks for the thing, goes there, and does what is asked
mediocre   the same in 4 of 10 turns, else any action
random     any action
"""

from __future__ import annotations

import re
from typing import NamedTuple

from envs.text.listed import Chooser

SEEN = re.compile(r"You see an? ([a-z ]+?) (\d.*?)\.")
CARRIED = re.compile(r"You carry an? ([a-z ]+)\.")
GOAL = re.compile(r"Goal: (.*)\.")
PLACES = re.compile(r" (?:on your left|on your right|in front of you|behind you)")
PART = re.compile(r"(go to|pick up|open|put) (?:an?|the) ([a-z ]+?)(?: next to (?:an?|the) ([a-z ]+))?")
PATIENCE = 40  # turns after which a part that does not come right is left for the next one


class Thing(NamedTuple):
    name: str
    right: int
    forward: int


class Part(NamedTuple):
    verb: str
    what: str
    beside: str


class Seeker(Chooser):
    """Does 95 % of the missions of GoToLocal, and 88 % of those of PutNextLocal."""

    wisdom = 0.8  # a detour now and then leads out of where it would turn for ever

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.parts: list[Part] = []
        self.turning, self.waited = "", 0

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        if goal := GOAL.search(observation):
            self.parts, self.waited = parts_of(goal[1]), 0
        things = things_of(observation)
        carried = CARRIED.search(observation)
        self.waited += 1
        if self.waited > PATIENCE * 4 and len(self.parts) > 1:
            self.parts, self.waited = [*self.parts[1:], self.parts[0]], 0
        ahead = next((each for each in things if (each.right, each.forward) == (0, 1)), None)
        return self.act(things, carried[1] if carried else "", ahead)

    def act(self, things: list[Thing], carried: str, ahead: Thing | None) -> str:
        part = self.parts[0] if self.parts else Part("go to", "object", "")
        wanted = part.what
        if part.verb == "put" and is_a(carried, part.what):
            near = [each for each in things if is_a(each.name, part.beside)]
            if any((each.right, each.forward) in ((0, 2), (1, 1), (-1, 1)) for each in near) and ahead is None:
                self.done()
                return "drop"
            wanted = part.beside
        elif part.verb == "pick up" and is_a(carried, part.what):
            self.done()
        elif carried and part.verb in ("pick up", "put") and ahead is None:
            return "drop"
        if ahead is not None and is_a(ahead.name, wanted):
            if part.verb in ("pick up", "put") and not carried:
                return "pick up"
            if part.verb == "open":
                self.done()
                return "toggle"
            if part.verb == "go to":
                self.done()
        if ahead is not None and "closed" in ahead.name:
            return "toggle"
        if ahead is not None and "locked" in ahead.name and carried.split(" ")[0] in ahead.name.split():
            return "toggle"
        return self.walk([each for each in things if is_a(each.name, wanted)], things, ahead)

    def done(self) -> None:
        self.parts, self.waited = [*self.parts[1:], *self.parts[:1]], 0

    def walk(self, targets: list[Thing], things: list[Thing], ahead: Thing | None) -> str:
        blocked = ahead is not None and "open" not in ahead.name
        doors = [each for each in things if each.name.endswith("door")]
        goals = targets or (doors if self.random.random() < 0.5 else [])
        if goals and self.random.random() < 0.9:
            goal = min(goals, key=lambda each: abs(each.right) + each.forward)
            if goal.forward == 0 or (goal.right and blocked):
                return "turn right" if goal.right > 0 else "turn left"
            if not blocked:
                self.turning = ""
                return "go forward"
        if blocked or self.random.random() < 0.12:
            self.turning = self.turning or self.random.choice(("turn left", "turn right"))
            return self.turning
        self.turning = ""
        return "go forward"


class Mediocre(Seeker):
    """Does 80 % of the missions of GoToLocal, and 65 % of those of PutNextLocal and of GoTo."""

    wisdom = 0.4


class Random(Chooser):
    """Any action: does 40 % of the missions of GoToLocal, 3 % of those of PutNextLocal, 13 % of those of GoTo."""


def parts_of(mission: str) -> list[Part]:
    """In the order in which they are to be done."""
    first, after, second = mission.partition(" after you ")
    clauses = [second, first] if after else mission.split(", then ")
    found = (PART.fullmatch(each) for clause in clauses for each in PLACES.sub("", clause).split(" and "))
    return [Part(each[1], each[2], each[3] or "") for each in found if each]


def things_of(observation: str) -> list[Thing]:
    found = []
    for name, where in SEEN.findall(observation):
        at = {way: int(count) for count, way in re.findall(r"(\d+) steps? (left|right|forward)", where)}
        found.append(Thing(name, at.get("right", 0) - at.get("left", 0), at.get("forward", 0)))
    return found


def is_a(name: str, wanted: str) -> bool:
    """`wanted`: red ball, ball, red object, object."""
    words = set(name.split())
    return bool(words) and "wall" not in words and all(word in words for word in wanted.split() if word != "object")
