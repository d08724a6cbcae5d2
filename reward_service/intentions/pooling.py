"""From groups to what a turn is worth.

exact       the mean of the turn's group                                   (the paper)
backoff     the mean of the first group, from fine to coarse, that has `smallest` members
shrinkage   from coarse to fine,  m <- (sum + strength * m) / (count + strength),
            beginning with the mean at the same turn of the same seat

A turn is worth `own` of its own return and the rest of that.
The baseline is the same, over all actions at the history, or the mean at the turn. Without any
table, before there is a space, a turn is worth its own return, and a baseline is that of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reward_service.intentions.aggregation import Aggregates, Entry, Groups
from reward_service.intentions.settings import PoolingSettings


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


def aggregates_for(settings: PoolingSettings, tables: Sequence[tuple[int, int | None]]) -> Aggregates:
    """With the groups that `values_of` reads."""
    leans_on_turn = settings.baseline == "turn" or settings.pooling == "shrinkage"
    return Aggregates(
        tables,
        histories=settings.baseline == "history",
        by_turn=leans_on_turn or (not tables and settings.baseline != "none"),
    )


def values_of(entry: Entry, settings: PoolingSettings) -> np.ndarray:
    """float64 [turns]"""
    aggregates, found, returns = entry
    groups, tables = aggregates.groups, len(aggregates.actions)
    by_turn = np.zeros_like(returns) if aggregates.turn is None else groups.means(found[aggregates.turn])
    actions = found[aggregates.actions]
    histories = found[aggregates.histories] if settings.baseline == "history" else None
    expected = by_turn
    if not tables:
        worth = returns
    elif settings.pooling == "shrinkage":
        worth = _leaning(groups, actions, by_turn, settings.strength)
        if histories is not None:
            expected = _leaning(groups, histories, by_turn, settings.strength)
    else:
        enough = groups.count[actions] >= settings.smallest
        chosen = np.where(enough.any(axis=0), enough.argmax(axis=0), tables - 1)[None]
        worth = groups.means(np.take_along_axis(actions, chosen, axis=0)[0])
        if histories is not None:
            expected = groups.means(np.take_along_axis(histories, chosen, axis=0)[0])
    worth = mixed(returns, worth, settings.own)
    return worth if settings.baseline == "none" else worth - expected


def mixed(returns: np.ndarray, pooled: np.ndarray, own: float) -> np.ndarray:
    return own * returns + (1 - own) * pooled if own else pooled


def _leaning(groups: Groups, tables: np.ndarray, by_turn: np.ndarray, strength: float) -> np.ndarray:
    """From coarse to fine, each estimate the prior of the next."""
    means = by_turn
    for table in tables[::-1]:
        means = (groups.sums(table) + strength * means) / (groups.count[table] + strength)
    return means
