"""Tests of worlds whose package may be missing: those left out say so aloud, with what would bring it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from envs.registry import WORLDS
from envs.worlds.package import WAYS

NEED_OPTIONS = {"mcp"}  # worlds that cannot be made without
MODULES = {"open_spiel": "pyspiel"}  # what a world's package is imported as, where that is another name


def installed(world: str) -> bool:
    return world not in WORLDS or find_spec(MODULES.get(world, world)) is not None


def needs(world: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not installed(world), reason=f"NOT tested here: {world} is not installed: {WAYS}")
