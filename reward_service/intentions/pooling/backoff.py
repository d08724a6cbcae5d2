"""Back-off: the mean of the first group, from fine to coarse, that is large enough.

Where no group is, it is the coarsest one's. A baseline has the history of the action's group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from reward_service.intentions.means import Grouped, LazyGrouped
from reward_service.intentions.pooling.pooling import ShorterHistories


class Backoff(ShorterHistories):
    smallest: int = Field(4, ge=1, description="a group with fewer turns than this is small")

    def pooled(self, tables: Sequence[Grouped], actions: Sequence[Grouped], at_turn: LazyGrouped) -> np.ndarray:
        found = tables[-1].means()
        for table, action in zip(tables[-2::-1], actions[-2::-1], strict=True):
            found = np.where(action.counts() >= self.smallest, table.means(), found)
        return found
