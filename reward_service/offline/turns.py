"""What the turns of a data set that lies on disk in codes are worth.

The same definitions as beside the traffic (`intentions.worth`), over turns that are grouped all at once
(`intentions.turns`). This takes about 80 bytes a turn.

Turns of seats that are not trained are no members of any group.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reward_service.intentions.settings import AggregateSettings
from reward_service.intentions.turns import Turns
from reward_service.intentions.worth import worth_of
from reward_service.offline.coding import SEATS, TURNS
from reward_service.offline.columns import open_column


class CodedTurns(Turns):
    """`trained`: places of the seats that count. Arrays of one entry a turn are in file order, with
    the turns of other seats left out."""

    def __init__(self, folder: Path, gamma: float, trained: Sequence[int]):
        columns = {name: open_column(folder / f"{name}.npy") for name in TURNS | SEATS}
        lengths = np.diff(np.append(columns["starts"], len(columns["said"])))
        kept = np.isin(columns["seats"], list(trained)) & (lengths > 0)
        turns = np.repeat(kept, lengths)
        self.games = columns["games"][kept]
        super().__init__(
            columns["said"][turns],
            columns["heard"][turns],
            lengths=lengths[kept],
            players=columns["seats"][kept].astype(np.int64),
            outcomes=columns["outcomes"][kept],
            gamma=gamma,
        )


class Worth(NamedTuple):
    values: np.ndarray  # float64 [turns]
    groups: np.ndarray  # int32 [turns]: of the exact (history, action)


def worth(turns: CodedTurns, labels: dict[int, np.ndarray], k: int, settings: AggregateSettings) -> Worth:
    """What each turn is worth, pooled and with the baseline that the settings ask for;
    `labels[level][code]`: the intention of a code at a level."""
    tables = settings.pooling.tables(sorted(labels), k)
    found = [turns.histories(labels[level], length) for level, length in tables]
    actions = [turns.grouped(each.action) for each in found]
    histories = [turns.grouped(each.history) for each in found]
    values = worth_of(turns.values, actions, histories, turns.turn_means, settings)
    return Worth(values, found[0].action)


def figures(turns: CodedTurns, worth: Worth) -> dict[str, float]:
    """The same figures as beside the traffic: `intentions.window`."""
    size = np.bincount(worth.groups)[worth.groups]
    alone, depth = size == 1, turns.depth()
    per_turn = np.bincount(depth, alone) / np.bincount(depth)
    return {
        "turns": turns.count,
        "groups": int(worth.groups.max()) + 1,
        "group_size": float(size.mean()),
        "singletons": float(alone.mean()),
        "variance_before": float(turns.values.var()),
        "variance_after": float(worth.values.var()),
        "singletons_by_turn": [round(float(share), 4) for share in per_turn],
    }
