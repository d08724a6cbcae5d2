"""A seat's game in intention space: what it heard and said, as codes of gists.

The label history before turn t is  (o_0, a_1, o_1, ..., a_{t-1}, o_{t-1}).  o_0 is there only
where another seat spoke first: a seat that answers an offer knows the offer. The return of
turn t of T is  gamma^(T-t) R: exponents count the seat's turns, are never negative, and the
last turn, answered or not, gets exactly R.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from reward_service.intentions.gist import NOTHING, OTHER

Player = tuple[str, str]  # (game, seat): their histories never mix


class CodedGame(NamedTuple):
    """Codes of gists, or, below 0, the fixed labels of `gist`."""

    player: Player
    actions: tuple[int, ...]  # what the seat said, turn by turn
    observations: tuple[int, ...]  # what it heard before each of them
    outcome: float

    def plain(self, row: Mapping[int, int]) -> list[Any]:
        """With rows in place of codes; fixed labels stay."""
        said = [row[code] for code in self.actions]
        return [*self.player, said, [row.get(code, code) for code in self.observations], self.outcome]

    @classmethod
    def of_plain(cls, game: str, seat: str, said: list[int], heard: list[int], outcome: float) -> CodedGame:
        return cls((game, seat), tuple(said), tuple(heard), outcome)


def turn_returns(outcome: float, turns: int, gamma: float) -> list[float]:
    return [gamma ** (turns - t) * outcome for t in range(1, turns + 1)]


class TurnsByDepth:
    """The turns of many trajectories side by side, depth by depth, to be grouped at any labelling."""

    def __init__(self, trajectories: Sequence[CodedGame], gamma: float):
        lengths = np.array([len(each.actions) for each in trajectories], np.int64)
        self.players = sorted({each.player for each in trajectories})
        self.player = np.array([self.players.index(each.player) for each in trajectories], np.int64)
        self.depths = [np.flatnonzero(lengths > depth) for depth in range(max(lengths, default=0))]
        said = [np.array([trajectories[i].actions[t] for i in rows]) for t, rows in enumerate(self.depths)]
        heard = [np.array([trajectories[i].observations[t] for i in rows]) for t, rows in enumerate(self.depths)]
        before = [
            np.array([trajectories[i].actions[t - 1] if t else NOTHING for i in rows])
            for t, rows in enumerate(self.depths)
        ]
        self.steps = list(zip(self.depths, before, heard, said, strict=True))
        returns = [turn_returns(each.outcome, len(each.actions), gamma) for each in trajectories]
        self.values = np.array([returns[i][t] for t, rows in enumerate(self.depths) for i in rows])

    def group_means(self, labels: np.ndarray) -> np.ndarray:
        """Mean return, turn by turn, over all turns with the same (history, action);
        `labels[code]` is the intention of a code."""
        table = np.append(labels, range(OTHER, 0))  # a code below 0 indexes from the end, and is its own label
        table = table - table.min()
        width = int(table.max()) + 1
        history, groups, first = self.player.copy(), [], 0
        for rows, before, heard, said in self.steps:
            joined = (history[rows] * width + table[before]) * width + table[heard]
            history[rows] = np.unique(joined, return_inverse=True)[1]
            found, group = np.unique(history[rows] * width + table[said], return_inverse=True)
            groups.append(group + first)
            first += len(found)
        group = np.concatenate(groups) if groups else np.empty(0, np.int64)
        return (np.bincount(group, self.values) / np.bincount(group))[group]
