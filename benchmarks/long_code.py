"""Data science in programs of some 125 words, as long as the field's: most of them are lines that change nothing.

They stand between the import and the classifier, so that some of a program's mistakes are made before them and some
behind them. Scripted coders draw them at random, and so does what is cloned from these.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from envs.data_science.game import DataScience
from envs.data_science.players import HEAD, Mediocre
from envs.game import Player

LINES = 27
NAMES = ("first", "second", "third", "rows", "columns", "kinds", "lowest", "highest")
VALUES = (
    "len(x_train)",
    "len(y_train)",
    "x_train.shape",
    "x_train.min()",
    "x_train.max()",
    "y_train.max()",
    "x_train.mean()",
    "x_train.copy()",
)


def line(name: str, value: str) -> str:
    return f"{name} = {value} ;"


def lengthened(program: str, lines: Iterable[str]) -> str:
    """The lines come behind the import; behind the head, if nothing is imported."""
    begin = program.find(" ; ") + 3 if "import" in program else len(HEAD) + 1
    return " ".join((program[:begin].strip(), *lines, program[begin:].strip()))


class LongCode(DataScience):
    def language(self) -> Iterator[str]:
        yield from super().language()
        yield from (line(name, value) for name in NAMES for value in VALUES)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return super().players() | {"mediocre": Wordy}


class Wordy(Mediocre):
    def reset(self, seed: int) -> None:
        super().reset(seed)
        self.style = random.Random(f"style {seed}")

    def write(self) -> str:
        pick = self.style.choice
        return lengthened(super().write(), [line(pick(NAMES), pick(VALUES)) for _ in range(LINES)])
