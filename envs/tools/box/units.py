"""Units of length, time, weight and number."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from envs.tools.tool import ToolError
from envs.tools.world import World

SMALL: dict[str, dict[str, int]] = {  # kind -> unit -> how many of the smallest it is
    "length": {"inches": 1, "feet": 12, "yards": 36},
    "time": {"hours": 1, "days": 24, "weeks": 168},
    "number": {"pieces": 1, "pairs": 2, "dozens": 12},
}
MORE: dict[str, dict[str, int]] = {
    "distance": {"millimetres": 1, "centimetres": 10, "metres": 1000, "kilometres": 1_000_000},
    "duration": {"seconds": 1, "minutes": 60},
    "weight": {"grams": 1, "kilograms": 1000, "tonnes": 1_000_000},
}
KINDS = SMALL | MORE
Unit = Literal[
    "inches", "feet", "yards", "hours", "days", "weeks", "pieces", "pairs", "dozens", "millimetres", "centimetres",
    "metres", "kilometres", "seconds", "minutes", "grams", "kilograms", "tonnes",
]  # fmt: skip


def convert(
    world: World,
    amount: Annotated[int, Field(description="how many")],
    unit: Annotated[Unit, Field(description="of what")],
    to: Annotated[Unit, Field(description="the unit that is wanted")],
) -> int:
    """How many of one unit an amount of another is. It has to be a whole number."""
    for units in KINDS.values():
        if unit in units and to in units:
            whole, rest = divmod(amount * units[unit], units[to])
            if rest:
                raise ToolError("that is no whole number")
            return world.number(whole)
    raise ToolError("these units measure different things")
