"""A shop with a stock, and money to spend there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from envs.tools.tool import ToolError
from envs.tools.world import World

Item = Annotated[str, Field(description="what is sold, such as pens")]


def _sold(world: World, item: str) -> str:
    if item.lower() not in world.prices:
        raise ToolError("the shop does not sell that")
    return item.lower()


def price(world: World, item: Item) -> int:
    """What one piece costs."""
    return world.prices[_sold(world, item)]


def stock(world: World, item: Item) -> int:
    """How many pieces the shop has."""
    return world.stock[_sold(world, item)]


def buy(world: World, item: Item, count: Annotated[int, Field(description="how many pieces")]) -> None:
    """Buy so many pieces, all or none."""
    sold = _sold(world, item)
    if count < 1:
        raise ToolError("that is no number of pieces")
    if count > world.stock[sold]:
        raise ToolError("the shop does not have so many")
    if count * world.prices[sold] > world.purse:
        raise ToolError("there is not enough money")
    world.stock[sold] -= count
    world.purse -= count * world.prices[sold]


def purse(world: World) -> int:
    """How much money there is to spend."""
    return world.purse
