"""Tests of worlds whose package may be missing: those left out say so aloud, with what would bring it."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest

from envs.registry import WORLDS
from envs.worlds.package import WAYS

JAVA = {"scienceworld", "textworld_express"}  # worlds that run in it
NEED_OPTIONS = {"mcp"}  # worlds that cannot be made without
MODULES = {
    "alfworld": "fast_downward",
    "babyai": "minigrid",
    "nethack": "nle",
    "open_spiel": "pyspiel",
}  # what a world's package is imported as, where that is another name


def installed(world: str) -> bool:
    return world not in WORLDS or find_spec(MODULES.get(world, world)) is not None


def needs(world: str) -> pytest.MarkDecorator:
    lacks = "" if installed(world) else f"{world} is not installed: {WAYS}"
    if not lacks and world in JAVA and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        lacks = f"Java, in which {world} runs, is not installed: apt-get install openjdk-17-jre-headless"
    return pytest.mark.skipif(bool(lacks), reason=f"NOT tested here: {lacks}")
