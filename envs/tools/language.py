"""Every word of the plain form where the world is small, for the embedded policy's tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from envs.tools.box.dates import DAYS
from envs.tools.box.every import BOX
from envs.tools.box.units import SMALL
from envs.tools.calls import WORD
from envs.tools.families import families
from envs.tools.words import DONE
from envs.tools.world import FILES, ITEMS, PEOPLE, SIZED, TEAMS

ERRORS = (  # what calls are answered with that are not understood, or cannot be done
    *("there is no such tool", "there are too many words", "the tool does not take that"),
    *("the result is too small", "the result is too large", "nothing can be divided by zero"),
    *("the division does not come out even", "that is no date", "there is no such date"),
    *("the calendar does not go so far", "that is no whole number", "these units measure different things"),
    *("there is no such row", "the table has no such column", "there is no such file", "there are too many files"),
    *("the shop does not sell that", "that is no number of pieces", "the shop does not have so many"),
    "there is not enough money",
)


def sentences(turns: int) -> Iterator[str]:
    small = SIZED["small"]
    yield " ".join((WORD, DONE, "nothing", "error", "right", "wrong ; the answer is"))
    for family in families().values():
        yield family.question.replace("{", "").replace("}", "")
        yield " ".join(family.fields)
    yield from ERRORS
    yield " ".join(
        (*PEOPLE[: small.people], *TEAMS[: small.teams], *ITEMS[: small.items], *FILES[: small.files], *DAYS)
    )
    for tool in BOX.values():
        yield tool.name
        for slot in tool.parameters["properties"].values():
            yield " ".join(slot.get("enum", ()))
    yield " ".join(unit for units in SMALL.values() for unit in units)
    yield " ".join(map(str, range(small.least, small.most + 1)))
    yield " ".join((small.first + timedelta(day)).isoformat() for day in range((small.last - small.first).days + 1))
    yield " ".join(f"r{number}" for number in range(1, turns * small.people + 1))
