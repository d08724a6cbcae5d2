"""Days of the calendar, as YEAR-MONTH-DAY."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Annotated

from pydantic import Field

from envs.tools.tool import ToolError
from envs.tools.world import World

Date = Annotated[str, Field(description="a date such as 2024-02-29")]
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def day_of(world: World, text: str) -> date:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ToolError("that is no date")
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise ToolError("there is no such date") from None
    return _known(world, found)


def _known(world: World, day: date) -> date:
    if not world.sized.first <= day <= world.sized.last:
        raise ToolError("the calendar does not go so far")
    return day


def add_days(
    world: World, date: Date, days: Annotated[int, Field(description="how many; below 0 for days before it")]
) -> str:
    """The date so many days after a date."""
    start = day_of(world, date)
    if abs(days) > 400_000:
        raise ToolError("the calendar does not go so far")
    try:
        return _known(world, start + timedelta(days)).isoformat()
    except OverflowError:
        raise ToolError("the calendar does not go so far") from None


def days_between(world: World, first: Date, last: Date) -> int:
    """How many days it is from the first date to the last."""
    return world.number((day_of(world, last) - day_of(world, first)).days)


def weekday(world: World, date: Date) -> str:
    """The day of the week of a date."""
    return DAYS[day_of(world, date).weekday()]
