"""Group means: what everything that is shared between turns is made of.

The window beside the traffic and files of games find groups each in its own way; here they are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Lazy = Callable[[], np.ndarray]  # [turns], computed when it is called


class Pairs(NamedTuple):
    """Turns of different games in one group of a table; each pair counts twice."""

    products: float  # sum of x_i x_j over them
    count: float
    square: float  # mean of x^2 over all turns

    @property
    def mean(self) -> float:
        return self.products / self.count if self.count else 0.0


class Grouped(NamedTuple):
    """Turns, by the groups that they are in."""

    counts: Lazy  # int64: members of each one's group
    sums: Lazy  # float64: of their returns
    pairs: Callable[[], Pairs] | None = None  # of all groups, where the pooling weighs evidence

    def means(self) -> np.ndarray:
        """float64 [turns]"""
        return self.sums() / self.counts()


LazyGrouped = Callable[[], Grouped]


def pairs_of(group: np.ndarray, game: np.ndarray, values: np.ndarray) -> tuple[Pairs, np.ndarray]:
    """`group`, `game`: of each turn, from 0; also each turn's number among equal (group, game)."""
    both = np.unique(group.astype(np.int64) * (int(game.max(initial=0)) + 1) + game, return_inverse=True)[1]
    sizes, inside = np.bincount(group), np.bincount(both)
    sums, own = np.bincount(group, values), np.bincount(both, values)
    products = float(np.square(sums).sum() - np.square(own).sum())
    count = float(np.square(sizes).sum() - np.square(inside).sum())
    return Pairs(products, count, float(np.square(values).mean())), both


def returns_of(outcomes: np.ndarray, lengths: np.ndarray, gamma: float) -> np.ndarray:
    """float64: of the turns of seats' games, one game after the other."""
    powers = np.array([gamma**turns for turns in range(int(lengths.max(initial=0)))])
    return powers[np.repeat(lengths, lengths) - 1 - places(lengths)] * np.repeat(outcomes, lengths)


def places(lengths: np.ndarray) -> np.ndarray:
    """int64: 0, 1, ... for each length, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
