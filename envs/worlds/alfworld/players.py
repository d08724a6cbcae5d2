"""Scripted players of ALFWorld, which read what the agent is told.

expert     looks for the thing from place to place, opens what is closed, does with it what is asked, and takes it where
           it belongs
mediocre   the same in four of five turns, else any command
random     any command
"""

from __future__ import annotations

import re
from typing import NamedTuple

from envs.text.listed import Chooser

TASK = re.compile(r"Your task is to: (.*)")
NAMED = re.compile(r"\ban? ([a-z]+ \d+)")
TAKEN = re.compile(r"take (.+) from .+")
LET_GO = re.compile(r"(?:move|put) .+ (?:to|in/on|in|on) (.+)")
LIGHT = re.compile(r"(?:look at|examine) (?:an? |the )?(\w+) (?:under|with|in|by) (?:an? |the )?(\w+)")
CHANGED = re.compile(r"(?:put an? (hot|cool|clean)|(heat|cool|clean) some) (\w+) (?:and put it )?(?:in|on) (\w+)")
TWO = re.compile(r"(?:put|find) two (\w+) (?:and put them )?(?:in|on) (\w+)")
ONE = re.compile(r"put (?:an?|some) (\w+) (?:in|on) (\w+)")
DONE_WITH = {"heat": ("microwave",), "cool": ("fridge",), "clean": ("sinkbasin", "bathtubbasin")}


class Goal(NamedTuple):
    thing: str  # a kind
    place: str  # a kind: where it goes, or the lamp
    how: str = ""  # heat, cool, clean, or use: look at it by the lamp
    count: int = 1


def goal_of(task: str) -> Goal | None:
    if said := LIGHT.search(task):
        return Goal(said[1], said[2], "use")
    if said := CHANGED.search(task):
        return Goal(said[3], said[4], (said[1] or said[2]).replace("hot", "heat"))
    if said := TWO.search(task):
        return Goal(said[1], said[2], count=2)
    said = ONE.search(task)
    return Goal(said[1], said[2]) if said else None


def kind(name: str) -> str:
    return name.partition(" ")[0]


class Random(Chooser):
    """Any command."""


class Expert(Chooser):
    """Does what it reads."""

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.goal: Goal | None = None
        self.seen: dict[str, set[str]] = {}  # what is in each place, once it was looked at
        self.places: list[str] = []
        self.here = self.held = self.kept_in = ""
        self.looked = False  # whether what is told now is what is here
        self.changed: set[str] = set()

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        told = observation.partition("\nYou can: ")[0]
        if task := TASK.search(told):
            self.goal = goal_of(task[1])
            self.places = NAMED.findall(told)
        elif self.looked and self.here and "you see" in told:
            self.seen[self.here] = set(NAMED.findall(told.partition("you see")[2]))
        return (self.goal and self.next(actions)) or super().advice(observation, actions)

    def next(self, actions: tuple[str, ...]) -> str | None:
        goal = self.goal
        if not self.held:
            return self.find(goal.thing, actions)
        if kind(self.held) != goal.thing:
            return begins(actions, f"move {self.held}", f"put {self.held}") or self.go(self.places, actions)
        if goal.how == "use":
            return begins(actions, f"use {goal.place}") or self.find(goal.place, actions)
        if goal.how and self.held not in self.changed:
            return self.at(DONE_WITH[goal.how], (f"{goal.how} {self.held} with",), actions)
        return self.at((self.kept_in or goal.place,), (f"move {self.held}", f"put {self.held}"), actions)

    def at(self, where: tuple[str, ...], commands: tuple[str, ...], actions: tuple[str, ...]) -> str | None:
        """Do it at a place of these kinds, or at the one of this name."""
        here = self.here and (self.here in where or kind(self.here) in where)
        if here and (command := begins(actions, *commands, f"open {self.here}")):
            return command
        return self.go([each for each in self.places if each in where or kind(each) in where], actions)

    def find(self, thing: str, actions: tuple[str, ...]) -> str | None:
        """Take it where it is in sight, else look where it was seen, else where nobody has looked."""
        at_home = self.here and self.here == self.kept_in
        if not at_home and not self.held and (command := begins(actions, f"take {thing}")):
            return command
        if self.here and self.here not in self.seen and (command := begins(actions, f"open {self.here}")):
            return command
        known = [place for place in self.places if place != self.kept_in and self.has(place, thing)]
        unseen = [place for place in self.places if place not in self.seen]
        if not known and not unseen:
            self.seen.clear()
        return self.go(known or unseen, actions)

    def has(self, place: str, thing: str) -> bool:
        return any(kind(each) == thing for each in self.seen.get(place, ()))

    def go(self, places: list[str], actions: tuple[str, ...]) -> str | None:
        ways = {name: each for each in actions if each.startswith("go to ") for name in names_in(each)}
        possible = [each for each in places if each in ways and each != self.here]
        return ways[self.random.choice(possible)] if possible else None

    def said(self, action: str) -> None:
        self.looked = action.startswith(("go to ", "open "))
        if action.startswith("go to "):
            self.here = names_in(action)[0]
        elif taken := TAKEN.fullmatch(action):
            self.held = taken[1]
            self.seen.get(self.here, set()).discard(self.held)
        elif let_go := LET_GO.fullmatch(action):
            if self.goal and self.goal[:2] == (kind(self.held), kind(let_go[1])) and self.goal.count == 2:
                self.kept_in = let_go[1]
            self.held = ""
        elif self.goal and self.goal.how and self.held and action.startswith(f"{self.goal.how} {self.held} "):
            self.changed.add(self.held)


class Mediocre(Expert):
    """Expert in four of five turns."""

    wisdom = 0.8


def begins(actions: tuple[str, ...], *starts: str) -> str | None:
    """The first action that begins so, a name ending where the start does or a number following a kind."""
    return next((each for start in starts for each in actions if each.startswith(f"{start} ") or each == start), None)


def names_in(go: str) -> list[str]:
    return re.findall(r"[a-z]+ \d+", go.removeprefix("go to "))
