"""Group means: what everything that is shared between turns is made of.

The window beside the traffic and files of games find groups each in its own way; here they are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Lazy = Callable[[], np.ndarray]  # [turns], computed when it is called


class Grouped(NamedTuple):
    """Turns, by the groups that they are in."""

    counts: Lazy  # int64: members of each one's group
    sums: Lazy  # float64: of their returns

    def means(self) -> np.ndarray:
        """float64 [turns]"""
        return self.sums() / self.counts()


def returns_of(outcomes: np.ndarray, lengths: np.ndarray, gamma: float) -> np.ndarray:
    """float64: of the turns of seats' games, one game after the other."""
    powers = np.array([gamma**turns for turns in range(int(lengths.max(initial=0)))])
    return powers[np.repeat(lengths, lengths) - 1 - places(lengths)] * np.repeat(outcomes, lengths)


def places(lengths: np.ndarray) -> np.ndarray:
    """int64: 0, 1, ... for each length, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
