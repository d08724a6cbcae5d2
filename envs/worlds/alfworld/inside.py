"""ALFWorld's text engine in a process of its own: one game after the other, played by `textworld` on Fast Downward.

    reset(path), step(command) -> {text, actions, won}

Nearly all of a reset is Fast Downward's translation of the game. `textworld` asks for it four times, twice for a
planner that is not used here: it is made once.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import fast_downward
from textworld import EnvInfos
from textworld.envs import PddlEnv

from envs.worlds.alfworld.data import content
from envs.worlds.alfworld.names import names
from envs.worlds.package import text_of

translated = lru_cache(maxsize=1)(fast_downward.pddl2sas)


class House:
    def __init__(self) -> None:
        fast_downward.pddl2sas = lambda domain, problem, **how: translated(domain, problem)
        self.engine = PddlEnv(EnvInfos(admissible_commands=True, won=True))

    def reset(self, path: str) -> dict[str, Any]:
        self.engine.load(content(Path(path)))
        things = self.engine._entity_infos
        for thing, name in names(things).items():
            things[thing].name = name
        return self._seen(self.engine.reset())

    def step(self, command: str) -> dict[str, Any]:
        state, _, _ = self.engine.step(command)
        return self._seen(state)

    def _seen(self, state: Any) -> dict[str, Any]:
        return {
            "text": text_of(state.feedback),
            "actions": [text_of(each) for each in state.admissible_commands],
            "won": bool(state.won),
        }
