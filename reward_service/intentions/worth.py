"""What a turn is worth: `own` of its own return and the rest of what is pooled, less a baseline.

The baseline is pooled in the same way, over all actions at the history, or it is the mean at the turn.
Without any table, before there is a space, a turn is worth its own return, and a baseline is that of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reward_service.intentions.aggregation import Aggregates, Entry
from reward_service.intentions.means import Grouped, LazyGrouped
from reward_service.intentions.pooling.pooling import Table
from reward_service.intentions.settings import AggregateSettings


def worth_of(
    returns: np.ndarray,
    actions: Sequence[Grouped],
    histories: Sequence[Grouped],
    at_turn: LazyGrouped,
    settings: AggregateSettings,
) -> np.ndarray:
    """float64 [turns]. `actions`, `histories`: turns by history and action, and by history, table by table, fine to
    coarse; `at_turn`: groups of the same turn of the same seat."""
    pooled = settings.pooling.pooled
    found = pooled(actions, actions, at_turn) if actions else returns
    if settings.own:
        found = settings.own * returns + (1 - settings.own) * found
    if settings.baseline == "none":
        return found
    if settings.baseline == "history" and actions:
        return found - pooled(histories, actions, at_turn)
    return found - at_turn().means()


def aggregates_for(settings: AggregateSettings, tables: Sequence[Table]) -> Aggregates:
    """With the groups that `values_of` reads."""
    by_turn = settings.baseline == "turn" or settings.pooling.leans_on_turn
    return Aggregates(
        tables,
        histories=settings.baseline == "history",
        by_turn=by_turn or (not tables and settings.baseline != "none"),
        evidence=settings.pooling.by_evidence,
        fading=settings.half_life is not None,
    )


def values_of(entry: Entry, settings: AggregateSettings) -> np.ndarray:
    """float64 [turns]"""
    aggregates = entry.aggregates
    actions = [entry.grouped(row) for row in aggregates.actions]
    histories = [entry.grouped(row) for row in aggregates.histories]
    found = worth_of(entry.returns, actions, histories, lambda: entry.grouped(aggregates.turn), settings)
    return found + entry.centre if settings.baseline == "none" and settings.pooling.by_evidence else found
