"""The word lists of `people.toml`."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path

from envs.guess_my_city.lore.words import stem

PEOPLE = Path(__file__).parent / "people.toml"


@lru_cache(maxsize=1)
def _read() -> dict:
    return tomllib.loads(PEOPLE.read_text(encoding="utf-8"))


def listed(name: str) -> frozenset[str]:
    return frozenset(_read()[name])


def stems_of(name: str) -> frozenset[str]:
    return frozenset(map(stem, listed(name)))


def short() -> dict[str, str]:
    return dict(_read()["short"])


def same() -> dict[str, str]:
    return dict(_read()["same"])
