"""What turns of one group have in common, over all pairs of turns of different games, as games come and go.

With S the sum of a group's returns and s what one game brought to it, the sum of x_i x_j over its pairs is
S^2 - sum of s^2, the number of pairs n^2 - sum of m^2 alike. Both are kept for whole tables, and change with the groups
that a game is in alone. Everything is in whole numbers, so nothing is left of what has gone, and the order of arrival
does not matter. Returns count from -1 to 1.
"""

from __future__ import annotations

import numpy as np

from reward_service.intentions.means import Pairs

STEPS = 2.0**16  # to 1 of a return


class Pairing:
    def __init__(self, tables: int):
        self.products, self.counts = [0] * tables, [0] * tables
        self.square = self.turns = 0
        self.sums = np.zeros(0, np.int64)  # of each group

    def change(self, sizes: np.ndarray, groups: np.ndarray, game: np.ndarray, returns: np.ndarray, sign: int) -> None:
        """Whole games come (`sign` 1) or go (-1). `sizes`: of all groups, before; `groups` [tables, turns]; `game`: of
        each turn, from 0."""
        steps = np.rint(np.clip(returns, -1, 1) * STEPS)
        self.square += sign * int(steps @ steps)
        self.turns += sign * len(steps)
        if len(self.sums) < len(sizes):
            self.sums = np.append(self.sums, np.zeros(len(sizes) - len(self.sums), np.int64))
        games = int(game.max(initial=0)) + 1
        for table, group in enumerate(groups):
            found, place = np.unique(group, return_inverse=True)
            inside = np.unique(place * games + game, return_inverse=True)[1]
            for total, before, given in ((self.products, self.sums, steps), (self.counts, sizes, None)):
                more, own = (sign * np.bincount(each, given).astype(np.int64) for each in (place, inside))
                total[table] += int((more * (2 * before[found] + more)).sum()) - sign * int((own * own).sum())
            self.sums[found] += sign * np.bincount(place, steps).astype(np.int64)

    def pairs(self, table: int) -> Pairs:
        square = self.square / STEPS**2 / self.turns if self.turns else 0.0
        return Pairs(self.products[table] / STEPS**2, float(self.counts[table]), square)
