"""The contract of a granularity: how the cut of the hierarchy that is used is chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from envs.kinds import Kinds
from envs.settings import Settings

if TYPE_CHECKING:
    from reward_service.intentions.space import IntentionSpace
    from reward_service.intentions.turns import Turns


class Played(NamedTuple):
    """What a cut may be chosen by beside the space itself: turns, and the labels of their codes at every level."""

    turns: Turns
    levels: Sequence[int]
    labels: np.ndarray  # int [levels, codes]


class Granularity(Settings, ABC):
    @abstractmethod
    def level(self, space: IntentionSpace, played: Played, seed: int) -> int | None:
        """One of the space's levels, of which there are several; None: no criterion was met, so the finest is taken."""


GRANULARITIES = Kinds("granularity", "kind", "held_out", "reward_service.intentions.granularity", Granularity)
AnyGranularity = Annotated[Granularity, GRANULARITIES]
