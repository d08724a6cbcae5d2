"""The words of ALFWorld's games, read from their files: nothing is played."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from envs.worlds.alfworld.data import SPLITS, content, every
from envs.worlds.alfworld.names import names

THING = re.compile(r"[a-z]\w*_bar_\w+", re.IGNORECASE)
SENTENCE = re.compile(r'(?:::|"rhs":)\s*"((?:[^"\\]|\\.)*)"')
FILLED_IN = re.compile(r"\{[^}]*\}|#[^#]*#|[\[\]]|\\n")


@lru_cache(maxsize=4)
def words_of(folder: Path) -> tuple[str, ...]:
    """What can be said and seen in all games of all splits that are there."""
    found: dict[str, None] = {"a, an, and ,": None}
    for each in (game for split in SPLITS for game in every(folder, split)):
        game = content(each.path)
        things = {thing.lower() for thing in THING.findall(game["pddl_problem"])}
        found |= dict.fromkeys(name for thing, name in names(things).items() if not thing.startswith("loc_"))
        found |= dict.fromkeys(" ".join(FILLED_IN.sub(" ", said).split()) for said in SENTENCE.findall(game["grammar"]))
    return tuple(found)
