"""Shrinkage: coarse and fine groups, weighted by their counts.

    from coarse to fine    m <- (sum + strength * m) / (count + strength)

beginning with the mean at the same turn of the same seat.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, PositiveInt

from reward_service.intentions.means import Grouped, LazyGrouped
from reward_service.intentions.pooling.pooling import ShorterHistories, Table


class Shrinkage(ShorterHistories):
    leans_on_turn = True

    coarser: tuple[PositiveInt, ...] = Field(
        (), description="coarser cuts of the hierarchy that fine groups lean on, finest first"
    )
    strength: float = Field(4.0, gt=0, description="turns that the coarser estimate counts for")

    def tables(self, levels: Sequence[int], k: int) -> list[Table]:
        coarser = sorted({each for each in self.coarser if each < k and each in levels}, reverse=True)
        shortest = min(self.histories, default=None)
        return [*super().tables(levels, k), *((level, shortest) for level in coarser)]

    def pooled(self, tables: Sequence[Grouped], actions: Sequence[Grouped], at_turn: LazyGrouped) -> np.ndarray:
        means = at_turn().means()
        for table in reversed(tables):
            means = (table.sums() + self.strength * means) / (table.counts() + self.strength)
        return means
