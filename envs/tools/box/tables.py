"""Tables of people and of teams."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from envs.tools.tool import ToolError
from envs.tools.world import Row, World

Table = Annotated[Literal["people", "teams"], Field(description="people: name, team, age; teams: team, floor, boss")]
Column = Literal["name", "team", "age", "floor", "boss"]


def _row(world: World, table: str, key: str) -> Row:
    if key.lower() not in world.tables[table]:
        raise ToolError("there is no such row")
    return world.tables[table][key.lower()]


def _cell(row: Row, column: str) -> Any:
    if column not in row:
        raise ToolError("the table has no such column")
    return row[column]


def lookup(
    world: World,
    table: Table,
    row: Annotated[str, Field(description="name of the person or of the team")],
    column: Annotated[Column, Field(description="what is wanted of it")],
) -> int | str:
    """One value of a row."""
    return _cell(_row(world, table, row), column)


def filter(
    world: World,
    table: Table,
    column: Annotated[Column, Field(description="what is compared")],
    value: Annotated[str, Field(description="what it has to be")],
) -> list[str]:
    """The names of all rows in which a column has a value."""
    rows = world.tables[table]
    return [key for key, row in rows.items() if str(_cell(row, column)) == value.lower()]


def join(
    world: World,
    row: Annotated[str, Field(description="name of a person")],
    column: Annotated[Literal["floor", "boss"], Field(description="what is wanted of the person's team")],
) -> int | str:
    """One value of the team that a person is in."""
    return _cell(_row(world, "teams", _row(world, "people", row)["team"]), column)
