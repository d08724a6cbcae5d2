"""The package's own solutions of a split's variations, found when they are first asked for, and kept.

    $PARLEY_CACHE/scienceworld, or else ~/.cache/parley/scienceworld
        TASK-SPLIT-VERSION.json        what every variation shows first
        TASK-SPLIT-VERSION-N.json      the way of variation N: what is seen on it, and what is said then

The package takes seconds for one solution, and up to half a minute for some.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any

from envs.cache import cache_folder
from envs.worlds.java.following import Way, opening, walk, way_of
from envs.worlds.java.shared import Place, aside
from envs.worlds.scienceworld.settings import KIND, PER_PROCESS

PIECE = 20  # variations that are begun in one call


@lru_cache(maxsize=64)
def solutions(task: str, split: str, simplifications: str, seen: str) -> list[Way]:
    """The ways of the variations that begin so: of one, or of very few."""
    asked = {"task": task, "split": split, "simplifications": simplifications, "listed": False, "scene": False}
    made_by = zlib.crc32(f"{version('scienceworld')} {simplifications}".encode())
    stem = f"{task}-{split}-{made_by:08x}"

    def way(number: int) -> Way:
        return way_of(aside(KIND, PER_PROCESS, lambda place: walk(place, asked | {"seed": number})))

    openings = kept(f"{stem}.json", lambda: openings_of(asked))
    alike = [number for number, each in enumerate(openings) if each == seen]
    return [kept(f"{stem}-{number}.json", partial(way, number)) for number in alike]


def openings_of(asked: dict[str, Any]) -> list[str]:
    """A piece at a time, for a task may have hundreds of variations that take a second each."""
    found: list[str] = []
    count = 1
    while len(found) < count:
        piece = aside(KIND, PER_PROCESS, partial(begun_from, asked=asked, first=len(found)))
        found += map(opening, piece)
        count = piece[0]["variations"]
    return found


async def begun_from(place: Place, asked: dict[str, Any], first: int) -> list[dict[str, Any]]:
    found = [await place.call("begin", asked | {"seed": first})]
    last = min(first + PIECE, found[0]["variations"])
    return found + [await place.call("begin", asked | {"seed": seed}) for seed in range(first + 1, last)]


def kept(name: str, found: Callable[[], Any]) -> Any:
    path = cache_folder() / "scienceworld" / name
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    content = found()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(file.name, path)  # a file that is there is whole
    return content
