"""What the tools work on: a calendar, tables of people, files, a shop. Drawn from a seed, in one of two sizes.

small    whole numbers from 0 to 365, the days of 2024, eight people: few enough words for a small policy
large    whole numbers of up to 12 digits, the days from 1900 to 2100, twenty people
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from envs.tools.tool import ToolError

SIZES = ("small", "large")
PEOPLE = (
    *("anna", "ben", "carla", "david", "emma", "felix", "grace", "hugo"),
    *("irene", "jonas", "karen", "leo", "maria", "noah", "olga", "paul", "rosa", "simon", "tina", "victor"),
)
TEAMS = ("red", "blue", "green", "yellow", "black", "white", "orange", "purple")
ITEMS = ("pens", "books", "lamps", "cups", "bags", "maps", "chairs", "clocks", "plates", "scarves")
FILES = ("notes.txt", "plan.txt", "list.txt", "draft.txt", "sales.txt", "costs.txt", "hours.txt", "stock.txt")


@dataclass(frozen=True, slots=True)
class Size:
    people: int
    teams: int
    items: int
    files: int
    most: int  # the largest number there is
    least: int
    number: int  # the largest that a task begins with
    first: date
    last: date


SIZED = {
    "small": Size(8, 4, 6, 5, 365, 0, 60, date(2024, 1, 1), date(2024, 12, 31)),
    "large": Size(20, 8, 10, 8, 10**12 - 1, -(10**12) + 1, 9999, date(1900, 1, 1), date(2100, 12, 31)),
}
Row = dict[str, Any]


@dataclass(slots=True)
class World:
    size: str
    tables: dict[str, dict[str, Row]]  # table -> key of a row -> row
    files: dict[str, str]
    prices: dict[str, int]
    stock: dict[str, int]
    purse: int

    @property
    def sized(self) -> Size:
        return SIZED[self.size]

    def number(self, value: int) -> int:
        if value < self.sized.least:
            raise ToolError("the result is too small")
        if value > self.sized.most:
            raise ToolError("the result is too large")
        return value

    def state(self) -> dict[str, Any]:
        """What calls may change, as JSON values."""
        return {"files": dict(self.files), "stock": dict(self.stock), "purse": self.purse}

    def put_back(self, state: dict[str, Any]) -> None:
        self.files, self.stock, self.purse = dict(state["files"]), dict(state["stock"]), state["purse"]

    def copy(self) -> World:
        return World(**asdict(self))


def drawn(rng: random.Random, size: str) -> World:
    sized = SIZED[size]
    people, teams = PEOPLE[: sized.people], TEAMS[: sized.teams]
    ages = rng.sample(range(20, 66), len(people))
    floors = rng.sample(range(1, 20), len(teams))
    return World(
        size=size,
        tables={
            "people": {
                name: {"name": name, "team": rng.choice(teams), "age": age}
                for name, age in zip(people, ages, strict=True)
            },
            "teams": {
                team: {"team": team, "floor": floor, "boss": rng.choice(people)}
                for team, floor in zip(teams, floors, strict=True)
            },
        },
        files={name: str(rng.randint(1, sized.number)) for name in rng.sample(FILES[: sized.files], sized.files - 2)},
        prices={item: rng.randint(2, 20 if size == "small" else 500) for item in ITEMS[: sized.items]},
        stock={item: rng.randint(1, 9 if size == "small" else 90) for item in ITEMS[: sized.items]},
        purse=rng.randint(150, 300) if size == "small" else rng.randint(20_000, 90_000),
    )
