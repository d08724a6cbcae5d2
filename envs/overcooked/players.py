"""Scripted cooks of stated strength. They read what the game tells them and remember it.

expert     the shortest way to the dish
mediocre   knows the way, but mostly wanders: the one the embedded policy is cloned from
random     any listed action
"""

from __future__ import annotations

import re
from typing import ClassVar

from envs.overcooked.kitchen import RECIPES
from envs.overcooked.macros import BOARD_NAMES
from envs.text.listed import Chooser

HELD = re.compile(r"(?:with|have) (nothing|an? [^.]*) in hand\.")
ON_BOARD = re.compile(r"There is an? ([^.]*) on (the (?:\w+ )?cutting board)\.")
EMPTY = re.compile(r"(The (?:\w+ )?cutting board) is empty\.")
BESIDE = re.compile(r"standing in front of (the (?:\w+ )?cutting board) ")
FOODS = re.compile("tomato|lettuce|onion")
TAKEN = re.compile(r"(?:pick up the (?P<food>\w+)|put the (?P<added>\w+) in the bowl|take the (?:empty )?bowl)$")


def _as_listed(advice: str, actions: tuple[str, ...]) -> str:
    """Under the name that the action has by the published rules, where it has another one."""
    if advice in actions:
        return advice
    if advice == "take the bowl":
        return "take the empty bowl"
    return f"walk to {advice.partition(' on ')[2]}"


class Cook(Chooser):
    """What is on the boards is remembered from when it was last seen."""

    def __init__(self, task: str = "tomato_salad", rules: str = "own", **options):
        self.recipe, self.told_when_empty = RECIPES[task], rules == "own"
        single = len(self.recipe) == 1
        self.board_names = (
            ["the cutting board"] if single else [f"the {name} cutting board" for name in BOARD_NAMES[:2]]
        )

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.boards = dict.fromkeys(self.board_names, "")  # what lies there, "" for nothing

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        for board in EMPTY.findall(observation):
            self.boards[board.lower()] = ""
        for thing, board in ON_BOARD.findall(observation):
            self.boards[board] = thing
        return _as_listed(self._next(observation), actions)

    def said(self, action: str) -> None:
        """By the published rules nobody tells that a board is empty. What was taken from one is gone from there;
        if it was not taken after all, it will be seen again."""
        taken = None if self.told_when_empty else TAKEN.match(action)
        for board, thing in self.boards.items():
            if taken and thing and (taken["food"] or taken["added"] or "bowl") in thing:
                self.boards[board] = ""

    def _next(self, observation: str) -> str:
        held = HELD.search(observation)[1]
        if held == "nothing":
            beside = BESIDE.search(observation)
            return self._with_empty_hands(beside[1] if beside else None)
        if "bowl" in held:
            return self._with_the_bowl(held)
        return self._with_food(held)

    def _free_board(self) -> str | None:
        return next((board for board, thing in self.boards.items() if not thing), None)

    def _chopped(self) -> list[str]:
        """Chopped ingredients of the recipe that lie on boards."""
        lying = [thing.removeprefix("chopped ") for thing in self.boards.values() if thing.startswith("chopped ")]
        return [food for food in self.recipe if food in lying]

    def _with_empty_hands(self, beside: str | None) -> str:
        for board, thing in self.boards.items():
            if thing.startswith("unchopped "):
                return f"chop the {thing.removeprefix('unchopped ')}" if board == beside else f"walk to {board}"
            food = thing.removeprefix("chopped ")
            if thing and food not in self.recipe and "bowl" not in thing:
                return f"pick up the {food}"
        bowl = next((thing for thing in self.boards.values() if "bowl" in thing), "")
        chopped = self._chopped()
        missing = [food for food in self.recipe if food not in chopped and food not in FOODS.findall(bowl)]
        if missing and self._free_board():
            return f"pick up the {missing[0]}"
        if chopped and (len(self.recipe) == 1 or bowl):
            return f"pick up the {chopped[0]}"
        return "take the bowl"

    def _with_the_bowl(self, held: str) -> str:
        inside = FOODS.findall(held)
        if set(inside) == set(self.recipe) or not set(inside) <= set(self.recipe):
            return "serve the dish"
        chopped = self._chopped()
        if chopped:
            return f"put the {chopped[0]} in the bowl"
        free = self._free_board()
        return f"put the bowl on {free}" if free and len(self.boards) > 1 else "serve the dish"

    def _with_food(self, held: str) -> str:
        food = FOODS.search(held)[0]
        if food not in self.recipe:
            return "serve the dish"
        if " chopped " in f" {held}":
            return "take the bowl"
        free = self._free_board()
        return f"put the {food} on {free}" if free else "serve the dish"


class Expert(Cook):
    """The shortest way: the tomato salad always, in 28 primitive steps and 6 turns (return
    1.110), the tomato-lettuce salad in 45 and 10 (1.338)."""


class Mediocre(Cook):
    """Knows what to do, but is hasty: mostly it would serve whatever it has in hand, and in 6
    of 10 turns it takes any listed action instead. Serves 58 % of the tomato salads (return
    -0.04) and 45 % of the others (0.04)."""

    wisdom = 0.4
    haste: ClassVar[dict[str, float]] = {"tomato_salad": 0.8, "tomato_lettuce_salad": 0.5}

    def __init__(self, task: str = "tomato_salad", **options):
        super().__init__(task, **options)
        self.hasty = self.haste[task]

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        advice = super().advice(observation, actions)
        serves = self.random.random() < self.hasty and "serve the dish" in actions
        return "serve the dish" if serves else advice


class Random(Chooser):
    """Any listed action: 45 % of the tomato salads (return -0.10), 1 % of the others (-0.58)."""


PLAYERS: dict[str, type[Chooser]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}
