"""Tasks: what is asked, and one way to the answer.

    seed --> world, family, fields --> the family's calls, made on a copy of the world --> answer, end of the world

A draw whose calls cannot be made (a division that does not come out even) is drawn again. So the answer is what the
tools say, and there always is one. Families are in families.toml.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs.tools.box.every import BOX
from envs.tools.box.units import KINDS, SMALL
from envs.tools.calls import Call, read_plain
from envs.tools.tool import Result, ToolError
from envs.tools.world import FILES, World, drawn

DRAWS = 5000  # until a family's calls can be made
FIELD = re.compile(r"\{(\w+)\}")
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    question: str
    fields: dict[str, str]  # name -> what it is drawn from
    calls: tuple[str, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Task:
    family: Family
    values: Values
    calls: tuple[Call, ...]
    answer: str
    end: dict[str, Any]  # what the world's state is to be

    @property
    def given(self) -> Values:
        """The values that have a letter."""
        return {name: value for name, value in self.values.items() if len(name) == 1}


@lru_cache(maxsize=1)
def families() -> dict[str, Family]:
    table = tomllib.loads((Path(__file__).parent / "families.toml").read_text(encoding="utf-8"))
    return {
        name: Family(name, each["question"], each["fields"], tuple(each["calls"]), each["answer"])
        for name, each in table.items()
    }


def filled(template: str, values: Mapping[str, Any]) -> str:
    return FIELD.sub(lambda found: str(values[found[1]]), template)


def task_of(seed: int, names: Sequence[str], size: str) -> tuple[World, Task]:
    rng = random.Random(f"tools {seed}")
    family = families()[rng.choice(list(names))]
    for _ in range(DRAWS):
        world = drawn(rng, size)
        if (task := _attempt(rng, family, world)) is not None:
            return world, task
    raise RuntimeError(f"family {family.name} of size {size} has no task in {DRAWS} draws")


def _attempt(rng: random.Random, family: Family, world: World) -> Task | None:
    values: Values = {}
    for name, kind in family.fields.items():
        found = POOLS[kind](rng, world, values)
        if found is None:
            return None
        values[name] = found
    task = Task(family, values, (), "", {})
    copy, known, calls = world.copy(), dict(task.given), []
    for template in family.calls:
        (call,) = read_plain(FIELD.sub(_spoken(values), template), BOX, known)
        try:
            result = BOX[call.name].function(copy, **call.arguments)
        except ToolError:
            return None
        calls.append(call)
        for value in results_in(result):
            known[next_name(known)] = value
    return Task(family, values, tuple(calls), filled(family.answer, known), copy.state())


def _spoken(values: Values) -> Callable[[re.Match], str]:
    """A value with a letter and a result are said by their names, others as they are."""
    return lambda found: str(values[found[1]]) if found[1] in values and len(found[1]) > 1 else found[1]


def next_name(known: Mapping[str, Any]) -> str:
    """Of the result after all those that are known."""
    return f"r{1 + sum(len(name) > 1 for name in known)}"


def results_in(result: Result) -> list[int | str]:
    """What can be named later: each text of a list by itself."""
    if result is None:
        return []
    return list(result) if isinstance(result, list) else [result]


def _other(options: Sequence[Any], rng: random.Random, values: Values) -> Any:
    left = [each for each in options if each not in values.values()]
    return rng.choice(left) if left else None


def _date(rng: random.Random, world: World, values: Values) -> str:
    days = (world.sized.last - world.sized.first).days
    return (world.sized.first + timedelta(rng.randint(0, days))).isoformat()


def _later_date(rng: random.Random, world: World, values: Values) -> str:
    start = date.fromisoformat(values["x"])
    return (start + timedelta(rng.randint(0, (world.sized.last - start).days))).isoformat()


def _kinds(world: World) -> dict[str, dict[str, int]]:
    return SMALL if world.size == "small" else KINDS


def _unit(rng: random.Random, world: World, values: Values) -> str:
    return rng.choice([unit for units in _kinds(world).values() for unit in units])


def _other_unit(rng: random.Random, world: World, values: Values) -> str | None:
    return _other(next([*units] for units in _kinds(world).values() if values["unit"] in units), rng, values)


def _team_of_two(rng: random.Random, world: World, values: Values) -> str | None:
    teams = [row["team"] for row in world.tables["people"].values()]
    return _other(sorted(team for team in set(teams) if teams.count(team) == 2), rng, values)


POOLS: dict[str, Callable[[random.Random, World, Values], Any]] = {
    "number": lambda rng, world, values: rng.randint(2, world.sized.number),
    "few": lambda rng, world, values: rng.randint(2, 9),
    "operation": lambda rng, world, values: rng.choice(("plus", "minus", "times", "over")),
    "date": _date,
    "later_date": _later_date,
    "unit": _unit,
    "other_unit": _other_unit,
    "person": lambda rng, world, values: _other([*world.tables["people"]], rng, values),
    "column": lambda rng, world, values: rng.choice(("age", "team")),
    "team_of_two": _team_of_two,
    "file": lambda rng, world, values: _other(sorted(world.files), rng, values),
    "other_file": lambda rng, world, values: _other(sorted(world.files), rng, values),
    "new_file": lambda rng, world, values: _other(
        [name for name in FILES[: world.sized.files] if name not in world.files], rng, values
    ),
    "item": lambda rng, world, values: _other([*world.prices], rng, values),
}
