"""Tasks of the tools: thousands, each with the answer that plain Python gives, found without the tools."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

import pytest

from envs.tools.families import families, filled, task_of
from envs.tools.world import SIZES

INCHES = {"inches": 1, "feet": 12, "yards": 36}
HOURS = {"hours": 1, "days": 24, "weeks": 24 * 7}
SECONDS = {"seconds": 1, "minutes": 60}
PIECES = {"pieces": 1, "pairs": 2, "dozens": 12}
METRES = {"millimetres": 1, "centimetres": 10, "metres": 10**3, "kilometres": 10**6}
GRAMS = {"grams": 1, "kilograms": 10**3, "tonnes": 10**6}
UNITS = (INCHES, HOURS, SECONDS, PIECES, METRES, GRAMS)
DO = {"plus": int.__add__, "minus": int.__sub__, "times": int.__mul__, "over": int.__floordiv__}


def converted(amount: int, unit: str, to: str) -> int:
    units = next(each for each in UNITS if unit in each and to in each)
    assert amount * units[unit] % units[to] == 0
    return amount * units[unit] // units[to]


def after(day: str, days: int) -> date:
    return date.fromisoformat(day) + timedelta(days)


def days(first: str, last: str) -> int:
    return (date.fromisoformat(last) - date.fromisoformat(first)).days


def expected(world, task) -> tuple[str, dict]:
    """(answer, what has changed)"""
    v, people, teams, same = task.values, world.tables["people"], world.tables["teams"], world.state()
    files, stock = dict(world.files), dict(world.stock)
    match task.family.name:
        case "arithmetic":
            return str(DO[v["operation"]](v["x"], v["y"])), same
        case "arithmetic_twice":
            return str(DO[v["then"]](DO[v["operation"]](v["x"], v["y"]), v["z"])), same
        case "date_after":
            return str(after(v["y"], v["x"])), same
        case "weekday_after":
            return after(v["y"], v["x"]).strftime("%A").lower(), same
        case "days_between":
            return str(days(v["x"], v["y"])), same
        case "weeks_between":
            return str(days(v["x"], v["y"]) // 7), same
        case "conversion":
            return str(converted(v["x"], v["unit"], v["to"])), same
        case "conversion_sum":
            return str(converted(v["x"], v["unit"], v["to"]) + v["y"]), same
        case "lookup":
            return str(people[v["x"]][v["column"]]), same
        case "join":
            return str(teams[people[v["x"]]["team"]]["floor"]), same
        case "age_of_the_boss":
            return str(people[teams[people[v["x"]]["team"]]["boss"]]["age"]), same
        case "age_difference":
            return str(people[v["x"]]["age"] - people[v["y"]]["age"]), same
        case "ages_of_a_team":
            ages = [row["age"] for row in people.values() if row["team"] == v["x"]]
            assert len(ages) == 2
            return str(sum(ages)), same
        case "read_file":
            return files[v["x"]], same
        case "copy_file":
            assert v["y"] not in files
            return "done", same | {"files": files | {v["y"]: files[v["x"]]}}
        case "delete_file":
            return "done", same | {"files": {name: text for name, text in files.items() if name != v["x"]}}
        case "sum_of_files":
            return str(int(files[v["x"]]) + int(files[v["y"]])), same
        case "sum_into_file":
            return "done", same | {"files": files | {v["z"]: str(int(files[v["x"]]) + int(files[v["y"]]))}}
        case "cost":
            return str(world.prices[v["y"]] * v["x"]), same
        case "purchase" | "clearance":
            item, count = (v["y"], v["x"]) if "y" in v else (v["x"], stock[v["x"]])
            left = world.purse - world.prices[item] * count
            assert left >= 0 and stock[item] >= count
            bought = {"files": files, "stock": stock | {item: stock[item] - count}, "purse": left}
            return ("done" if task.family.name == "clearance" else str(left)), bought
    raise AssertionError(task.family.name)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", families())
def test_answers_are_exact(name, size):
    for seed in range(40):
        world, task = task_of(seed, [name], size)
        assert (task.answer, task.end) == expected(world, task), filled(task.family.question, task.values)
        assert 1 <= len(task.calls) <= 4


def test_there_are_thousands_of_tasks_of_every_number_of_calls():
    assert len(families()) == 21
    for size in SIZES:
        asked, calls = set(), Counter()
        for seed in range(2000):
            world, task = task_of(seed, tuple(families()), size)
            asked.add((filled(task.family.question, task.values), task.answer, str(world.tables)))
            calls[len(task.calls)] += 1
        assert len(asked) > 1950 and set(calls) == {1, 2, 3, 4} and min(calls.values()) > 150


def test_a_task_is_its_seed():
    for seed in (0, 7, -7, 10**12):
        assert task_of(seed, tuple(families()), "small") == task_of(seed, tuple(families()), "small")
    assert task_of(7, ["join"], "small") != task_of(-7, ["join"], "small")


def test_the_answer_is_seldom_what_the_question_says():
    """Whoever repeats a value of the question is not right by it."""
    lucky = 0
    for seed in range(1000):
        _, task = task_of(seed, tuple(families()), "large")
        lucky += task.answer in map(str, task.given.values())
    assert lucky < 20
