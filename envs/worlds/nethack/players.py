"""Scripted players of NetHack. Each reads what its seat is told, and knows nothing else.

explorer   goes down where it can, attacks what is next to it, eats when hungry, walks to staircases, gold and
           doorways, kicks locked doors, else far in one direction after another
mediocre   explorer in half of its turns, random in the others
random     any listed action
"""

from __future__ import annotations

import re

from envs.text.listed import Chooser

CIRCLE = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
SEEN = re.compile(r"^You see: (.*)\.$", re.MULTILINE)
WAYS = re.compile(r"^Ways: (.*)\.$", re.MULTILINE)
FOUGHT = re.compile(r"\bYou (?:kill|destroy|hit|miss|strike|bite|kick|smite)\b")
PLACE = re.compile(r"(.*?)(?: (\d+))? (\w+)")
WANTED = ("staircase down", "ladder down", "gold piece")
LEFT_ALONE = (
    "tame ", "statue", "boulder", "doorway", "open door", "closed door", "staircase", "ladder", "fountain", "altar",
    "sink", "grave", "web", "pit", "hole", "iron bars", "tree", "water", "molten lava", "ice",
)  # fmt: skip
FOLLOWED = 12  # turns in which a target is walked to


class Random(Chooser):
    """Any listed action: it scores 6 points in 500 turns, and comes no deeper than the second level."""


class Explorer(Chooser):
    """Scores 76 points in 500 turns, and comes to the fifth level at best."""

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.heading = ""
        self.target, self.left = "", 0  # the kind of thing that it walks to, and for how many turns yet
        self.harmless: set[str] = set()
        self.attacked = ""
        self.turn = self.eaten = 0

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        self.turn += 1
        if self.attacked and not FOUGHT.search(observation):
            self.harmless.add(self.attacked)
        self.attacked = ""
        ways = WAYS.search(observation)
        if ways is None:
            return self.answer(observation, actions)
        return self.move(observation, [each for each in ways[1].split(", ") if each in CIRCLE], actions)

    def answer(self, observation: str, actions: tuple[str, ...]) -> str:
        if "yes" in actions:
            return "yes" if "eat it" in observation else "no"
        if self.heading in actions:  # of a kick
            return self.heading
        letters = [each for each in actions if each != "escape"]
        return self.random.choice(letters or list(actions))

    def move(self, observation: str, ways: list[str], actions: tuple[str, ...]) -> str:
        things = self.things(observation)
        if "Here: staircase down" in observation or "Here: ladder down" in observation:
            return "down"
        for name, steps, where in things:
            if steps == 1 and name not in self.harmless and not name.startswith(LEFT_ALONE) and "trap" not in name:
                self.attacked = name
                return where
        if "hungry" in observation and self.turn - self.eaten > 50 or "weak from hunger" in observation:
            self.eaten = self.turn
            return "eat"
        if "door is locked" in observation and self.heading in CIRCLE[::2]:
            return "kick"
        if not ways:
            return "search"
        for name, _, where in things:
            if name in WANTED and self.random.random() < 0.8:
                return self.towards(where, ways)
        return self.explore(things, ways)

    def explore(self, things: list[tuple[str, int, str]], ways: list[str]) -> str:
        self.left -= 1
        if self.left < -FOLLOWED:
            self.target, self.left = self.random.choice(("doorway", "open door", "closed door", "")), FOLLOWED
        if self.left > 0:
            goals = [each for each in things if each[0] == self.target]
            if goals:
                name, steps, where = goals[-1] if self.random.random() < 0.3 else goals[0]
                if steps == 1:
                    self.left, self.heading = 0, where
                    return where
                return self.towards(where, ways)
        if self.random.random() < 0.05:
            return "search"
        if self.heading not in ways or self.random.random() < 0.1:
            back = CIRCLE[(CIRCLE.index(self.heading) + 4) % 8] if self.heading in CIRCLE else ""
            self.heading = self.random.choice([each for each in ways if each != back] or ways)
        return f"far {self.heading}"

    def towards(self, where: str, ways: list[str]) -> str:
        """The way that turns least from it."""
        wanted = CIRCLE.index(where)
        turned = {each: min((CIRCLE.index(each) - wanted) % 8, (wanted - CIRCLE.index(each)) % 8) for each in ways}
        if self.random.random() < 0.15:
            return self.random.choice(ways)
        self.heading = min(ways, key=lambda each: (turned[each], self.random.random()))
        return self.heading

    @staticmethod
    def things(observation: str) -> list[tuple[str, int, str]]:
        seen = SEEN.search(observation)
        found = [PLACE.fullmatch(each) for each in seen[1].split(", ")] if seen else []
        return [(each[1], int(each[2] or 1), each[3]) for each in found if each and each[3] in CIRCLE]


class Mediocre(Explorer):
    """Scores 41 points in 500 turns, and comes to the fourth level at best."""

    wisdom = 0.5
