"""Whole numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from envs.tools.tool import ToolError
from envs.tools.world import World

Operation = Literal["plus", "minus", "times", "over"]


def calculate(
    world: World,
    x: Annotated[int, Field(description="first number")],
    operation: Annotated[Operation, Field(description="what to do; over: divided by")],
    y: Annotated[int, Field(description="second number")],
) -> int:
    """One step of arithmetic with whole numbers. A division has to come out even."""
    if operation == "over":
        if y == 0:
            raise ToolError("nothing can be divided by zero")
        if x % y:
            raise ToolError("the division does not come out even")
        return world.number(x // y)
    return world.number({"plus": x + y, "minus": x - y, "times": x * y}[operation])
