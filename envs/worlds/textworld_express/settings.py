"""What TextWorldExpress has: its games, with the least and the most of each of their settings, its splits, and what a
process of it may take."""

from __future__ import annotations

from envs.processes.process import Kind

_PLACES = {"numLocations": (1, 11)}
_SWITCHES = {"includeDoors": (0, 1), "limitInventorySize": (0, 1)}

GAMES: dict[str, dict[str, tuple[int, int]]] = {
    "coin": {**_PLACES, "numDistractorItems": (0, 10), **_SWITCHES},
    "cookingworld": {**_PLACES, "numDistractorItems": (0, 10), "numIngredients": (1, 5), **_SWITCHES},
    "twc": {"numLocations": (1, 3), "numItemsToPutAway": (1, 4), **_SWITCHES},
    "mapreader": {
        "numLocations": (2, 30), "maxDistanceApart": (1, 8), "maxDistractorItemsPerLocation": (0, 3), **_SWITCHES,
    },
    "arithmetic": {},
    "sorting": {},
    "simonsays": {"gameLength": (1, 1000), "numDistractors": (0, 5), "memorization": (0, 1)},
    "peckingorder": {},
}  # fmt: skip

SPLITS = {"train": 0, "dev": 10_000, "test": 20_000}  # the first seed of each
WORLDS = 1000  # of a split

KIND = Kind("textworld_express", "envs.worlds.textworld_express.world:World", megabytes=500)
PER_PROCESS = 64  # episodes in one process
