"""The contract of a granularity: how the cut of the hierarchy that is used is chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

from envs.kinds import Kinds
from envs.settings import Settings

if TYPE_CHECKING:
    from reward_service.intentions.space import IntentionSpace

Scores = Callable[[], Mapping[int, float]]  # k -> SplitScore(k) (granularity/split.py)


class Granularity(Settings, ABC):
    @abstractmethod
    def level(self, space: IntentionSpace, scores: Scores, seed: int) -> int | None:
        """One of the space's levels, of which there are several; None: no criterion was met, so the finest is taken."""


GRANULARITIES = Kinds("granularity", "kind", "split", "reward_service.intentions.granularity", Granularity)
AnyGranularity = Annotated[Granularity, GRANULARITIES]
