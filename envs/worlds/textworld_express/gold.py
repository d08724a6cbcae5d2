"""What is known of all worlds of a split before one is played: their openings, and the package's own way to the end.

known(game, settings, split).worlds(opening) -> the seeds of the worlds that begin so: nearly always one
known(...).way(seed)                         -> what is seen on the way, and the command that follows it
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from envs.worlds.java.following import Way, opening, walk, way_of
from envs.worlds.java.shared import Place, aside
from envs.worlds.textworld_express.settings import KIND, PER_PROCESS, SPLITS, WORLDS

WALKED = 60  # worlds whose words are read along the way to their ends


def known(game: str, settings: dict[str, int], split: str) -> Known:
    return _known(game, json.dumps(settings, sort_keys=True), split)


@lru_cache(maxsize=32)
def _known(game: str, settings: str, split: str) -> Known:
    return Known(game, json.loads(settings), split)


class Known:
    def __init__(self, game: str, settings: dict[str, int], split: str):
        self.asked = {"game": game, "settings": settings, "split": split}
        self.first = SPLITS[split]
        self._openings: dict[str, list[int]] = {}
        self._ways: dict[int, Way] = {}

    def worlds(self, seen: str) -> list[int]:
        if not self._openings:
            for number, found in enumerate(aside(KIND, PER_PROCESS, self._begin_all)):
                self._openings.setdefault(opening(found), []).append(self.first + number)
        return self._openings.get(seen, [])

    async def _begin_all(self, place: Place) -> list[dict[str, Any]]:
        return [await place.call("begin", self.asked | {"seed": self.first + number}) for number in range(WORLDS)]

    def way(self, seed: int) -> Way:
        if seed not in self._ways:
            self._ways[seed] = way_of(aside(KIND, PER_PROCESS, lambda place: walk(place, self.asked | {"seed": seed})))
        return self._ways[seed]


def walked(game: str, settings: dict[str, int], split: str) -> Iterator[str]:
    """The texts along the ways to the ends of the split's last worlds."""
    asked, last = {"game": game, "settings": settings, "split": split}, SPLITS[split] + WORLDS

    async def walk_all(place: Place) -> list[dict[str, Any]]:
        return [each for seed in range(last - WALKED, last) for each in await walk(place, asked | {"seed": seed})]

    for each in aside(KIND, PER_PROCESS, walk_all):
        yield from (each.get("task", ""), each["text"], each["look"], each["inventory"], *each["actions"])
