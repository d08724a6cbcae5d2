"""ALFWorld's games as their own download lays them out, in a folder of the user's.

    DATA/json_2.1.1/SPLIT/TASK-OBJECT-MOVED-RECEPTACLE-SCENE/trial_ID/game.tw-pddl

DATA is the option `data`, or else $ALFWORLD_DATA, or else ~/.cache/alfworld, as for ALFWorld itself. A game is JSON:
rules (`pddl_domain`), their words (`grammar`), a room (`pddl_problem`), whether it can be solved (`solvable`), and how
(`walkthrough`). A split has the games that ALFWorld plays, in the order of their paths: of the six tasks, nothing
sliced, known to be solvable.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

TASKS = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
SPLITS = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}  # games of the published data
ARCHIVE = "github.com/alfworld/alfworld/releases/download/0.4.2/json_2.1.3_tw-pddl.zip"
GAME = "game.tw-pddl"
FOLDER = re.compile(r"(?P<task>[a-z_]+)-(?P<thing>\w+)-\w+-(?P<place>\w+)-(?P<scene>\d+)")
SOLVABLE = re.compile(rb'"solvable":\s*(\w+)')
TAIL = 8192  # bytes at the end of a game, where `solvable` nearly always is


class Found(NamedTuple):
    """A game, and what the name of its folder says of it."""

    path: Path
    task: str
    thing: str
    place: str
    scene: str


def folder_of(data: str | None) -> Path:
    return Path(data or os.environ.get("ALFWORLD_DATA") or "~/.cache/alfworld").expanduser()


@lru_cache(maxsize=64)
def games(folder: Path, split: str, tasks: tuple[str, ...]) -> tuple[Found, ...]:
    """Of one split; ValueError where there are none."""
    found = tuple(each for each in every(folder, split) if each.task in tasks)
    if not found:
        what = split if len(tasks) == len(TASKS) else f"{split} for {', '.join(tasks)}"[:60]
        raise ValueError(
            f"game option data: no games of {what} in {str(folder)[-60:]}: download https://{ARCHIVE} (or run "
            "alfworld-download), unpack it, and name its folder in game.options.data or ALFWORLD_DATA"
        )
    return found


@lru_cache(maxsize=8)
def every(folder: Path, split: str) -> tuple[Found, ...]:
    """Of a split; none where the folder has none."""
    for root in (folder, *sorted(folder.glob("json_*"))):
        if paths := sorted((root / split).glob(f"*/*/{GAME}")):
            return tuple(_known(paths))
    return ()


def _known(paths: list[Path]) -> Iterator[Found]:
    for path in paths:
        said = FOLDER.fullmatch(path.parts[-3])
        if said and said["task"] in TASKS and "Sliced" not in said["thing"] and _solvable(path):
            yield Found(path, **said.groupdict())


def _solvable(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        said = SOLVABLE.search(file.read())
        if not said:
            file.seek(0)
            said = SOLVABLE.search(file.read())
    return bool(said) and said[1] == b"true"


def content(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
        if isinstance(found, dict) and all(isinstance(found[part], str) for part in ("pddl_problem", "grammar")):
            return found
        reason = "not the JSON of a game"
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:100]
    raise ValueError(f"{str(path)[-120:]} is no game of ALFWorld: {reason}; download {ARCHIVE} again")
