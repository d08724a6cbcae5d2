"""The contract of a reward shaper: finished episodes in, per-turn rewards out.

A shaper may keep state (intention spaces, reward models); it is saved and restored
with the run. Each answer names the version of the state that made it, so that a reward
can always be traced to the space it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from envs.episode import Episode


@dataclass(slots=True)
class ShapedRewards:
    """Per-turn values of one seat in one episode, one entry per turn of that seat."""

    number: int  # the episode's ticket number
    seat: str
    rewards: np.ndarray  # float32 [turns]
    version: int  # of the shaper's state
    kind: str = "reward"  # "reward": credit makes advantages of it; "advantage": it is one


class Shaper(Protocol):
    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]: ...

    def metrics(self) -> dict[str, float]: ...

    def state(self) -> dict: ...

    def restore(self, state: dict) -> None: ...


class Stateless:
    """What shapers that remember nothing have in common: version 0 for ever."""

    def metrics(self) -> dict[str, float]:
        return {}

    def state(self) -> dict:
        return {}

    def restore(self, state: dict) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but was given {sorted(state)}")
