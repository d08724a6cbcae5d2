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

from reward_service.intentions.pooling.pooling import GIST
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
    tables, evidence = settings.pooling.tables(sorted(labels), k), settings.pooling.by_evidence
    centre = turns.turn_means() if evidence else np.zeros(turns.count)
    returns = turns.values - centre
    found = {table: turns.histories(labels[table[0]], table[1]) for table in tables if table[0] != GIST}
    members = {table: turns.inside(found[k, table[1]].action) for table in tables if table[0] == GIST}
    actions = [members[table] if table[0] == GIST else found[table].action for table in tables]
    values = worth_of(
        returns,
        [turns.grouped(each, returns, evidence) for each in actions],
        [turns.grouped(each.history, returns, evidence) for each in found.values()],
        lambda: turns.grouped(turns.at_turn(), returns, evidence),
        settings,
    )
    if evidence and settings.baseline == "none":
        values = values + centre
    return Worth(values, actions[0])


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
