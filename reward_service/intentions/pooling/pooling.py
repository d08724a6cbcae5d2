"""The contract of a pooling: from the groups that a turn is in to what turns like it bring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, NonNegativeInt

from envs.kinds import Kinds
from envs.settings import Settings
from reward_service.intentions.means import Grouped, LazyGrouped

Table = tuple[int, int | None]  # level, and how many of the latest turns a history remembers; None: all
GIST = 0  # in place of a level: turns of one gist inside the finest level's groups of the same length


class Pooling(Settings, ABC):
    """A pooling of your own derives from it, or from ShorterHistories, and defines `pooled`."""

    leans_on_turn: ClassVar[bool] = False  # whether `pooled` asks for `at_turn`
    by_evidence: ClassVar[bool] = False  # whether it asks for pairs; returns are less their turn's mean at the refit

    def tables(self, levels: Sequence[int], k: int) -> list[Table]:
        """Those that it reads, fine to coarse."""
        return [(k, None)]

    @abstractmethod
    def pooled(self, tables: Sequence[Grouped], actions: Sequence[Grouped], at_turn: LazyGrouped) -> np.ndarray:
        """float64 [turns]. `tables`: groups of equal history and action, or, for a baseline, of equal history;
        `actions`: the former in either case; `at_turn`: groups of the same turn of the same seat."""


class ShorterHistories(Pooling):
    histories: tuple[NonNegativeInt, ...] = Field(
        (4, 2, 1, 0), description="shorter label histories, in turns, longest first"
    )

    def tables(self, levels: Sequence[int], k: int) -> list[Table]:
        return [(k, None), *((k, length) for length in sorted(set(self.histories), reverse=True))]


POOLINGS = Kinds("pooling", "kind", "exact", "reward_service.intentions.pooling", Pooling)
AnyPooling = Annotated[Pooling, POOLINGS]
