"""Worlds of TextWorld: files in a cache, generated when they are first asked for.

    $PARLEY_CACHE/textworld, or else ~/.cache/parley/textworld
        CHALLENGE-SETTINGS-SEED.z8, .json     both there, or the world is not

Whoever else generates the same world at the same time makes the same files. A world takes
one to three seconds, in a process of its own: the generator keeps a global random state, and the
compiler that it calls (Inform 7) writes into the home folder, so it is given another one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from envs.cache import cache_folder

CHALLENGES: dict[str, dict[str, Any]] = {
    "coin_collector": {"level": 10},
    "cooking": {
        "recipe": 1, "take": 1, "go": 6, "open": True, "cook": False, "cut": False, "drop": False,
        "recipe_seed": 0, "split": None,
    },
    "simple": {"rewards": "dense", "goal": "detailed", "test": False},
    "treasure_hunter": {"level": 5},
}  # fmt: skip
TIME_LIMIT_SECONDS = 300
AT_ONCE = threading.BoundedSemaphore(os.cpu_count() or 1)  # worlds that one process has made
START = "from parley.names import put_first; put_first(); from envs.doors.inward.worlds import main; main()"


def worlds_folder() -> Path:
    return cache_folder() / "textworld"


def generated(challenge: str, settings: dict[str, Any], seed: int) -> Path:
    """The .z8 file of one world, made if it is not there."""
    key = json.dumps([version("textworld"), challenge, settings], sort_keys=True).encode()
    path = worlds_folder() / f"{challenge}-{zlib.crc32(key):08x}-{seed}.z8"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with AT_ONCE:
            if not path.is_file():  # nobody else has made it meanwhile
                _generate(challenge, settings, seed, path)
    return path


def _generate(challenge: str, settings: dict[str, Any], seed: int, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        maker = subprocess.run(
            [sys.executable, "-c", START],
            input=json.dumps({"challenge": challenge, "settings": settings, "seed": seed, "path": str(made)}),
            env={**os.environ, "HOME": folder, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
        )
        if maker.returncode:
            reason = (maker.stderr.strip().splitlines() or ["no reason given"])[-1][:200]
            raise ValueError(f"game option settings={settings}: {challenge} cannot be generated: {reason}")
        for suffix in (".json", ".z8"):  # the .z8 last: where it is, the other one is too
            os.replace(made.with_suffix(suffix), path.with_suffix(suffix))


def main() -> None:
    """In the process of its own: what to make is read from standard input."""
    import textworld
    from textworld.challenges.registration import CHALLENGES as MAKERS
    from textworld.generator import compile_game

    asked = json.load(sys.stdin)
    options = textworld.GameOptions()
    options.seeds, options.path = asked["seed"], asked["path"]
    compile_game(MAKERS[f"tw-{asked['challenge']}"][1](asked["settings"], options), options)
