"""Scripted users of tools, who read the question and what their calls return, in either form.

expert     makes the calls that its family of tasks asks for, and answers
mediocre   in many of its turns does anything instead
random     any call or answer with what it has read
"""

from __future__ import annotations

import json
import random
import re
from functools import lru_cache
from typing import Any

from envs.tools.box.every import BOX
from envs.tools.calls import WORD, Call, read_plain, say_json
from envs.tools.families import FIELD, Family, families, next_name

NAMED = re.compile(r"(?:^| ; )([a-z]|r\d+) is (\S+)")
ANYTHING = r"\S+"
SHAPES = {"number": r"\d+", "few": r"\d+", "operation": "plus|minus|times|over"}
RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


class Clerk:
    """Reads; what it says is each player's own. `known`: what it can name, as the game names it."""

    def __init__(self, form: str = "plain", **options: Any):
        self.form = form

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"clerk {seed}")
        self.family: Family | None = None
        self.known: dict[str, Any] = {}
        self.words: dict[str, str] = {}  # fields of the question that have no letter
        self.own: dict[str, str] = {}  # result of the family's calls -> its name here
        self.step, self.waits = 0, False  # the next call of the family; whether it was just made

    def reply(self, observation: str, actions: tuple[str, ...] = ()) -> str:
        fresh = self.begin(observation) if self.family is None else self.results(observation)
        if self.waits and fresh is not None:
            self.step += 1
            for name in fresh:
                self.own[f"r{len(self.own) + 1}"] = name
        self.waits = False
        return self.say()

    def begin(self, observation: str) -> None:
        for family in families().values():
            if (found := asked(family.name, self.form).fullmatch(observation)) is not None:
                self.family, values = family, found.groupdict()
                self.known = {name: number(value) for name, value in values.items() if len(name) == 1}
                self.words = {name: value for name, value in values.items() if len(name) > 1}
                return
        raise ValueError(f"that is no task of these tools: {observation[:200]!r}")

    def results(self, observation: str) -> list[str] | None:
        """Names of what is new; None if something went wrong."""
        if self.form == "plain":
            if observation.startswith("error"):
                return None
            found = dict(NAMED.findall(observation))
            self.known |= {name: number(value) for name, value in found.items()}
            return list(found)
        fresh = []
        for text in RESPONSE.findall(observation):
            if text.startswith("error:"):
                return None
            if text == "done":
                continue
            value = json.loads(text) if text.startswith("[") else number(text)
            for each in value if isinstance(value, list) else [value]:
                fresh.append(next_name(self.known))
                self.known[fresh[-1]] = each
        return fresh

    def say(self) -> str:
        raise NotImplementedError

    def right(self) -> str:
        calls = self.family.calls
        if self.step == len(calls):
            return self.answer(FIELD.sub(self.spoken, self.family.answer))
        self.waits = True
        return self.call(FIELD.sub(self.spoken, calls[self.step]))

    def spoken(self, field: re.Match) -> str:
        name = field[1]
        return self.words.get(name, self.own.get(name, name))

    def call(self, plain: str) -> str:
        if self.form == "plain":
            return plain
        read = read_plain(plain, BOX, self.known)
        return say_json(read[0]) if isinstance(read, list) else plain

    def answer(self, plain: str) -> str:
        return f"{WORD} {plain}" if self.form == "plain" else f"Answer: {self.known.get(plain, plain)}"

    def anything(self) -> str:
        """A call of any tool with what can be named, or an answer."""
        names = list(self.known)
        if self.random.random() < 0.25:
            return self.answer(self.random.choice([*names, "done"]))
        tool = BOX[self.random.choice(list(BOX))]
        slots = tool.parameters["properties"].values()
        said = [self.random.choice(slot.get("enum") or names) for slot in slots]
        if self.form == "plain":
            return " ".join([tool.name, *said])
        values = [self.known.get(word, word) for word in said]
        return say_json(Call(tool.name, dict(zip(tool.parameters["properties"], values, strict=True))))


class Expert(Clerk):
    """Does every task, in as many turns as it has calls and one for the answer: 3.0."""

    def say(self) -> str:
        return self.right()


class Mediocre(Clerk):
    """An expert that does anything instead in 11 of 20 turns: does 39 % of the tasks, 42 % in json."""

    slips = 0.55

    def say(self) -> str:
        return self.anything() if self.random.random() < self.slips else self.right()


class Random(Clerk):
    """Any call or answer: does 0.5 % of the tasks."""

    def say(self) -> str:
        return self.anything()


PLAYERS: dict[str, type[Clerk]] = {"expert": Expert, "mediocre": Mediocre, "random": Random}


@lru_cache(maxsize=128)
def asked(name: str, form: str) -> re.Pattern:
    """How a family's question reads, with its fields as groups."""
    return re.compile(_pattern(families()[name], form))


def _pattern(family: Family, form: str) -> str:
    parts = FIELD.split(family.question)  # text, field, text, field, ...
    seen: set[str] = set()
    text = ""
    for place, part in enumerate(parts):
        if place % 2 == 0:
            text += re.escape(part)
        elif form == "plain" and len(part) == 1:
            text += part
        else:
            text += f"(?P={part})" if part in seen else f"(?P<{part}>{SHAPES.get(family.fields[part], ANYTHING)})"
            seen.add(part)
    if form == "json":
        return f"(?i:{text})[?.]"
    return text + "".join(rf" ; {name} is (?P<{name}>{ANYTHING})" for name in family.fields if len(name) == 1)


def number(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text) else text
