"""What is known of all worlds of a split before one is played: their openings, and the package's own way to the end.

    known(game, settings, split).worlds(opening) -> the seeds of the worlds that begin so: nearly always one
    known(...).path(seed)                        -> what is seen on the way, and the command that follows it

It is asked of a process of its own, so that nobody waits for it whose episode holds a room.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from envs.coroutines import finish
from envs.worlds.java.shared import Room, enter
from envs.worlds.textworld_express.settings import KIND, ROOMS, SPLITS, WORLDS

ASIDE = replace(KIND, name="textworld_express (its own solutions)", processes=1)
Path = list[tuple[str, str]]
WALKED = 60  # worlds whose words are read along the way to their ends


def plain(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def opening(found: dict[str, Any]) -> str:
    return plain(f"{found['task']}\n{found['text']}")


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
        self._paths: dict[int, Path] = {}

    def worlds(self, seen: str) -> list[int]:
        if not self._openings:
            for number, found in enumerate(in_room(self._begin_all)):
                self._openings.setdefault(opening(found), []).append(self.first + number)
        return self._openings.get(seen, [])

    async def _begin_all(self, room: Room) -> list[dict[str, Any]]:
        return [await room.call("begin", self.asked | {"seed": self.first + number}) for number in range(WORLDS)]

    def path(self, seed: int) -> Path:
        if seed not in self._paths:
            found = in_room(lambda room: walk(room, self.asked | {"seed": seed}))
            seen = [opening(found[0]), *(plain(each["text"]) for each in found[1:])]
            self._paths[seed] = list(zip(seen[:-1], found[0]["gold"], strict=True))
        return self._paths[seed]


async def walk(room: Room, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What is seen on the package's own way to the end of a world."""
    found = [await room.call("begin", asked | {"gold": True})]
    return found + [await room.call("step", command) for command in found[0]["gold"]]


def in_room(work: Callable[[Room], Awaitable[Any]]) -> Any:
    async def entered() -> Any:
        room = await enter(ASIDE, ROOMS)
        try:
            return await work(room)
        finally:
            room.leave()

    return finish(entered(), "what TextWorldExpress knows of its worlds")


def walked(game: str, settings: dict[str, int], split: str) -> Iterator[str]:
    """The texts along the ways to the ends of the split's last worlds."""
    asked, last = {"game": game, "settings": settings, "split": split}, SPLITS[split] + WORLDS

    async def walk_all(room: Room) -> list[dict[str, Any]]:
        return [each for seed in range(last - WALKED, last) for each in await walk(room, asked | {"seed": seed})]

    for each in in_room(walk_all):
        yield from (each.get("task", ""), each["text"], each["look"], each["inventory"], *each["actions"])
