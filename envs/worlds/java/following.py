"""Ways to the end of a world, as what is seen on them and the command that follows it.

Several worlds may begin alike. Which one it is shows on the way: `Following` keeps those whose way shows what is seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envs.worlds.java.shared import Place

Way = list[tuple[str, str]]


def plain(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def opening(found: dict[str, Any]) -> str:
    return plain(f"{found['task']}\n{found['text']}")


async def walk(place: Place, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What is seen on the package's own way to the end of a world; `gold` of the first are its commands."""
    found = [await place.call("begin", asked | {"gold": True})]
    return found + [await place.call("step", command) for command in found[0]["gold"]]


def way_of(walked: list[dict[str, Any]]) -> Way:
    seen = [opening(walked[0]), *(plain(each["text"]) for each in walked[1:-1])]
    return list(zip(seen, walked[0]["gold"], strict=True))


class Following:
    def __init__(self, ways: Iterable[Way]):
        self.ways = list(ways)
        self.place = 0  # on all of them

    def next(self, seen: str, listed: tuple[str, ...]) -> str | None:
        """The next command, or the next that is listed; None where no way goes on."""
        ahead = [way for way in self.ways if self.place < len(way)]
        self.ways = [way for way in ahead if seen.startswith(way[self.place][0])] or ahead
        for way in self.ways[:1]:
            while self.place < len(way):
                self.place += 1
                if not listed or way[self.place - 1][1] in listed:
                    return way[self.place - 1][1]
        return None
