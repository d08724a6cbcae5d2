"""From groups to what a turn is worth.

exact       the mean of the turn's group                                   (the paper)
backoff     the mean of the first group, from fine to coarse, that has `smallest` members
shrinkage   from coarse to fine,  m <- (sum + strength * m) / (count + strength),
            beginning with the mean at the same turn of the same seat

The baseline is the same, over all actions at the history, or the mean at the turn. Without any
table, before there is a space, a turn is worth its own return, and a baseline is that of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reward_service.intentions.aggregation import BITS, Entry, Group
from reward_service.intentions.settings import PoolingSettings

UNIT = 2.0**-BITS


def resolutions(settings: PoolingSettings, levels: Sequence[int], k: int) -> list[tuple[int, int | None]]:
    """(level, history length) of each table, fine to coarse; None is the whole history."""
    if settings.pooling == "exact":
        return [(k, None)]
    pairs = [(k, None), *((k, length) for length in sorted(set(settings.histories), reverse=True))]
    if settings.pooling == "shrinkage":
        shortest = min(settings.histories, default=None)
        coarser = sorted({each for each in settings.coarser if each < k and each in levels}, reverse=True)
        pairs += [(level, shortest) for level in coarser]
    return pairs


def values_of(entry: Entry, settings: PoolingSettings) -> np.ndarray:
    """float64 [turns]"""
    if not entry.tables:
        worth = [amount * UNIT for amount in entry.returns]
        expected = [group.mean for group in entry.turns]
    elif settings.pooling == "shrinkage":
        worth = _leaning([actions for _, actions in entry.tables], entry.turns, settings.strength)
        expected = _leaning([histories for histories, _ in entry.tables], entry.turns, settings.strength)
    else:
        histories, actions = _large_enough(entry, settings.smallest) if len(entry.tables) > 1 else entry.tables[0]
        worth = [group.mean for group in actions]
        expected = [group.mean for group in histories]
    if settings.baseline == "none":
        return np.array(worth)
    if settings.baseline == "turn":
        expected = [group.mean for group in entry.turns]
    return np.subtract(worth, expected)


def _large_enough(entry: Entry, smallest: int) -> tuple[list[Group], list[Group]]:
    """Turn by turn the first table's groups, from fine to coarse, or the last table's."""
    histories, actions = [], []
    for turn in range(len(entry.returns)):
        table = next((each for each in entry.tables if each[1][turn].count >= smallest), entry.tables[-1])
        histories.append(table[0][turn])
        actions.append(table[1][turn])
    return histories, actions


def _leaning(tables: Sequence[list[Group]], by_turn: Sequence[Group], strength: float) -> list[float]:
    """From coarse to fine, each estimate the prior of the next."""
    means = [group.mean for group in by_turn]
    for groups in reversed(tables):
        means = [
            (group.total * UNIT + strength * mean) / (group.count + strength)
            for group, mean in zip(groups, means, strict=True)
        ]
    return means
