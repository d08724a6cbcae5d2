"""Group means over all turns of a data set that lies on disk in codes.

The same definitions as beside the traffic (`intentions.aggregation`, `intentions.pooling`): the
history of turn t is (o_0, a_1, o_1, ..., a_(t-1), o_(t-1)), its return gamma^(T-t) R, and a turn is worth
the mean over all turns of the same seat with the same (history, action). Groups are found exactly, by
interning histories turn by turn; nothing is hashed. Beside the codes, which stay on disk, this takes
about 50 bytes a turn.

Turns of seats that are not trained are no members of any group.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reward_service.intentions.gist import NOTHING, OTHER
from reward_service.intentions.pooling import mixed, resolutions
from reward_service.intentions.settings import PoolingSettings
from reward_service.offline.coding import SEATS, TURNS
from reward_service.offline.columns import open_column


class Table(NamedTuple):
    """Each turn's group at one granularity and history length: numbers from 0, without gaps."""

    history: np.ndarray  # int32 [turns]
    action: np.ndarray  # int32 [turns]


class CodedTurns:
    """`trained`: places of the seats that count. Arrays of one entry a turn are in file order, with
    the turns of other seats left out."""

    def __init__(self, folder: Path, gamma: float, trained: Sequence[int]):
        columns = {name: open_column(folder / f"{name}.npy") for name in TURNS | SEATS}
        starts, every = np.asarray(columns["starts"]), len(columns["said"])
        lengths = np.diff(np.append(starts, every))
        kept = np.isin(columns["seats"], list(trained)) & (lengths > 0)
        self.said, self.heard = columns["said"], columns["heard"]
        self.source, self.lengths = starts[kept], lengths[kept]  # first row of each seat's game on disk
        self.seats = np.asarray(columns["seats"])[kept].astype(np.int64)
        self.outcomes = np.asarray(columns["outcomes"])[kept]
        self.games = np.asarray(columns["games"])[kept]
        self.starts = np.cumsum(self.lengths) - self.lengths  # the same among the turns that count
        self.count = int(self.lengths.sum())
        self.values = np.empty(self.count)  # returns
        for depth, rows in self._depths():
            self.values[self.starts[rows] + depth] = gamma ** (self.lengths[rows] - depth - 1.0) * self.outcomes[rows]

    def _depths(self):
        """Turn number, and the seats' games that have such a turn."""
        for depth in range(int(self.lengths.max(initial=0))):
            yield depth, np.flatnonzero(self.lengths > depth)

    def depth(self) -> np.ndarray:
        """int32 [turns]: place in the seat's own game, from 0."""
        return (np.arange(self.count) - np.repeat(self.starts, self.lengths)).astype(np.int32)

    def seat(self) -> np.ndarray:
        """int32 [turns]"""
        return np.repeat(self.seats, self.lengths).astype(np.int32)

    def table(self, labels: np.ndarray, length: int | None = None) -> Table:
        """`labels[code]`: the intention of a code. `length`: how many of the latest turns a history
        remembers; None: all."""
        table = np.append(labels, range(OTHER, 0)).astype(np.int64)  # a code below 0 is its own label
        table -= table.min()
        width = int(table.max()) + 1
        history = self._whole(table, width) if length is None else self._latest(table, width, length)
        action = np.empty(self.count, np.int64)
        for depth, rows in self._depths():
            place = self.starts[rows] + depth
            action[place] = history[place] * width + table[self.said[self.source[rows] + depth]]
        return Table(history.astype(np.int32), _interned(action).astype(np.int32))

    def _whole(self, table: np.ndarray, width: int) -> np.ndarray:
        """Each history is found from the one before it."""
        of_turn, current, known = np.empty(self.count, np.int64), self.seats.copy(), 0
        for depth, rows in self._depths():
            joined = _interned(current[rows] * width * width + self._step(table, width, rows, depth))
            current[rows] = joined
            of_turn[self.starts[rows] + depth] = known + joined
            known += int(joined.max()) + 1
        return of_turn

    def _latest(self, table: np.ndarray, width: int, length: int) -> np.ndarray:
        """From the newest of the remembered turns back; one that there was not is a step of its own."""
        history, none = self.seat().astype(np.int64), width * width
        for back in range(length):
            steps = np.full(self.count, none, np.int64)
            for depth, rows in self._depths():
                if depth >= back:
                    place = self.starts[rows] + depth
                    steps[place] = self._step(table, width, rows, depth - back)
            history = _interned(history * (none + 1) + steps)
        return history

    def _step(self, table: np.ndarray, width: int, rows: np.ndarray, depth: int) -> np.ndarray:
        """What was said at the turn before, and what was heard since, as one number."""
        source = self.source[rows] + depth
        before = table[self.said[source - 1]] if depth else table[NOTHING]
        return before * width + table[self.heard[source]]

    def group_means(self, labels: np.ndarray) -> np.ndarray:
        return self.means(self.table(labels).action)

    def means(self, group: np.ndarray) -> np.ndarray:
        return (np.bincount(group, self.values) / np.bincount(group))[group]


def _interned(keys: np.ndarray) -> np.ndarray:
    return np.unique(keys, return_inverse=True)[1].reshape(keys.shape)


class Worth(NamedTuple):
    values: np.ndarray  # float64 [turns]
    groups: np.ndarray  # int32 [turns]: of the exact (history, action)


def worth(turns: CodedTurns, labels: dict[int, np.ndarray], k: int, settings: PoolingSettings) -> Worth:
    """What each turn is worth, pooled and with the baseline that the settings ask for;
    `labels[level][code]`: the intention of a code at a level."""
    tables = [(level, length) for level, length in resolutions(settings, sorted(labels), k)]
    found = [turns.table(labels[level], length) for level, length in tables]
    groups = found[0].action
    values = mixed(turns.values, _pooled(turns, [table.action for table in found], settings), settings.own)
    if settings.baseline == "history":
        if settings.pooling == "backoff":
            values = values - _backed_off(turns, found, settings.smallest)
        else:
            values = values - _pooled(turns, [table.history for table in found], settings)
    elif settings.baseline == "turn":
        values = values - turns.means(_by_turn(turns))
    return Worth(values, groups)


def _pooled(turns: CodedTurns, groups: Sequence[np.ndarray], settings: PoolingSettings) -> np.ndarray:
    if settings.pooling == "exact":
        return turns.means(groups[0])
    if settings.pooling == "backoff":
        return _first_large_enough(turns, groups, groups, settings.smallest)
    means = turns.means(_by_turn(turns))
    for group in reversed(groups):  # from coarse to fine, each estimate the prior of the next
        total, count = np.bincount(group, turns.values)[group], np.bincount(group)[group]
        means = (total + settings.strength * means) / (count + settings.strength)
    return means


def _backed_off(turns: CodedTurns, tables: Sequence[Table], smallest: int) -> np.ndarray:
    """Means of the histories at the length that the actions' groups decide on."""
    return _first_large_enough(turns, [t.history for t in tables], [t.action for t in tables], smallest)


def _first_large_enough(
    turns: CodedTurns, groups: Sequence[np.ndarray], deciding: Sequence[np.ndarray], smallest: int
) -> np.ndarray:
    found = turns.means(groups[-1])
    for group, sized in zip(groups[-2::-1], deciding[-2::-1], strict=True):
        large = np.bincount(sized)[sized] >= smallest
        found = np.where(large, turns.means(group), found)
    return found


def _by_turn(turns: CodedTurns) -> np.ndarray:
    return _interned(turns.seat().astype(np.int64) * (int(turns.lengths.max(initial=0)) + 1) + turns.depth())


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
