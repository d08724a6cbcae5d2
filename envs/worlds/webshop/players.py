"""Scripted players of WebShop.

oracle     knows the shop: which goal an instruction is of, and which product and options it wants
reader     reads the instruction: searches for its words, opens the product whose title has most of them, chooses the
           options that it names, and buys
rule       the published rule: searches for the instruction, opens the first product and buys it
mediocre   the reader in 3 of 4 turns, with a search of three words, else anything
random     anything
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from envs.text.listed import Chooser
from envs.worlds.webshop.files import TINY
from envs.worlds.webshop.pages import BACK, BUY, DETAILS, NEXT, PREVIOUS
from envs.worlds.webshop.reward.matching import colour, matches
from envs.worlds.webshop.shop import shop_of

SEP = " [SEP] "
MOST = 8  # words of a reader's search
_IDLE = """
i am looking for a an the that is are which and with in of to me my it its should be they need find please get would
like buy want also some choice than price lower dollars on or so can has have new good color size from
"""
IDLE = frozenset(_IDLE.split())
WAYS = {f"click[{each.lower()}]" for each in (BACK, NEXT, PREVIOUS, BUY, *DETAILS)}
_MENU = re.compile(r"\nYou can: .*\Z", re.DOTALL)
_BUTTON = re.compile(r"\[/?(?:clicked )?button_?\]")


def parts_of(observation: str) -> list[str]:
    """Of a page, in both views."""
    text = _BUTTON.sub("", _MENU.sub("", observation))
    return [each.strip() for each in (text.split(SEP) if SEP in text else text.split("\n")) if each.strip()]


def instruction_of(parts: list[str]) -> str:
    place = parts.index("Instruction:") + 1 if "Instruction:" in parts else len(parts)
    return parts[place] if place < len(parts) else ""


def words_of(text: str) -> list[str]:
    wanted = re.sub(r", and price lower than .*", "", text.lower())
    return [word for word in re.findall(r"[^\W_]+", wanted) if word not in IDLE]


class Shopper(Chooser):
    """Looks at a page and knows which one it is."""

    def __init__(self, searches: str = "free", **options: Any):
        self.listed = searches == "listed"

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.chosen: set[str] = set()

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        advice = self.advice(observation, actions)
        if self.random.random() < self.wisdom:
            return advice
        return self.random.choice(actions) if actions else self.anything(observation)

    def anything(self, observation: str) -> str:
        words = words_of(instruction_of(parts_of(observation)))
        return f"search[{self.random.choice(words) if words else 'anything'}]"

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        parts = parts_of(observation)
        self.wanted = instruction_of(parts)
        if "click[buy now]" in actions:
            return self.at_product(parts, actions)
        if not actions or actions[0].startswith("search["):
            self.chosen = set()
            return self.search(actions)
        items = [each for each in actions if each not in WAYS]
        titles = [after for each, after in pairwise(parts) if f"click[{each.lower()}]" in items]
        if items:
            return self.open(items, titles)
        return "click[< prev]" if "click[< prev]" in actions else "click[back to search]"

    def search(self, actions: tuple[str, ...]) -> str:
        return f"search[{self.wanted.lower()}]" if not self.listed else actions[-1]

    def open(self, items: list[str], titles: list[str]) -> str:
        return items[0]

    def at_product(self, parts: list[str], actions: tuple[str, ...]) -> str:
        return "click[buy now]"


class Rule(Shopper):
    """The published rule: .60 of the most in the tiny shop, and no option chosen."""


class Reader(Shopper):
    """Knows only what it reads: .87 of the most in the tiny shop."""

    most = MOST

    def search(self, actions: tuple[str, ...]) -> str:
        return super().search(actions) if self.listed else f"search[{' '.join(words_of(self.wanted)[: self.most])}]"

    def open(self, items: list[str], titles: list[str]) -> str:
        words = set(words_of(self.wanted))
        return max(zip(items, titles, strict=True), key=lambda each: len(words & set(words_of(each[1]))))[0]

    def at_product(self, parts: list[str], actions: tuple[str, ...]) -> str:
        words = set(words_of(self.wanted))
        for action in sorted(set(actions) - WAYS, key=len, reverse=True):
            value = action[len("click[") : -1]
            if action not in self.chosen and value in self.wanted.lower() and set(words_of(value)) <= words:
                self.chosen.add(action)
                return action
        return "click[buy now]"


class Mediocre(Reader):
    """Short searches, and a quarter of its turns wasted: .59 in the tiny shop."""

    wisdom, most = 0.75, 3


class Oracle(Shopper):
    """Gets what there is to get: all, in the tiny shop."""

    def __init__(self, data: str = TINY, goals: str = "human", products: int | None = None, **options: Any):
        super().__init__(**options)
        self.goals = shop_of(data, products, goals).goals

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        self.goal = self.goals.told(instruction_of(parts_of(observation)))
        return super().advice(observation, actions)

    def search(self, actions: tuple[str, ...]) -> str:
        return super().search(actions) if self.listed else f"search[{self.goal.name.lower()}]"

    def open(self, items: list[str], titles: list[str]) -> str:
        own = f"click[{self.goal.asin.lower()}]"
        return own if own in items else "click[next >]"

    def at_product(self, parts: list[str], actions: tuple[str, ...]) -> str:
        for option in self.goal.options:
            for action in sorted(set(actions) - WAYS - self.chosen):
                value = action[len("click[") : -1]
                if matches(colour(value), option if self.goal.named_options else colour(option)):
                    self.chosen.add(action)
                    return action
        return "click[buy now]"


class Random(Shopper):
    """Searches for one word of the instruction, and clicks anything: .10 in the tiny shop."""

    wisdom = 0.0
