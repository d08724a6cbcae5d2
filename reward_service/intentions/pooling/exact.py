"""The mean of the turn's group, as in the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reward_service.intentions.means import Grouped, LazyGrouped
from reward_service.intentions.pooling.pooling import Pooling


class Exact(Pooling):
    def pooled(self, tables: Sequence[Grouped], actions: Sequence[Grouped], at_turn: LazyGrouped) -> np.ndarray:
        return tables[0].means()
