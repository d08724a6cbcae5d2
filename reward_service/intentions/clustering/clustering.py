"""The contract of a clustering method: how embedded utterances become nested cuts, and which cut is used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from pydantic import Field

from envs.kinds import Kinds
from envs.settings import Settings
from reward_service.intentions.granularity.granularity import Played

if TYPE_CHECKING:
    from reward_service.intentions.space import IntentionSpace


class Points(NamedTuple):
    """Distinct utterances, and the prototypes that stand for them."""

    rows: np.ndarray  # float32 [n, components]
    prototype: np.ndarray  # int64 [n]
    prototypes: np.ndarray  # float32 [p, components]
    weights: np.ndarray  # int64 [p]: utterances that each stands for, repeated ones too


class SpaceSettings(Settings, ABC):
    """A method of your own derives from it and defines `cuts`."""

    prototypes: int = Field(
        1024, ge=2, le=4096, description="most points that are clustered; more distinct utterances are reduced to these"
    )
    dimensions: int = Field(
        64, ge=1, description="principal components that are kept where utterances are reduced to prototypes"
    )
    rounds: int = Field(10, ge=1, description="most passes over all utterances to place the prototypes")
    amount_weight: float = Field(
        4.0, ge=0, description="weight of parsed amounts beside the unit embedding; 0: words alone decide"
    )
    keep: float = Field(
        0.3, ge=0, le=1, description="a cluster keeps its id across a refit from this overlap (Jaccard) on"
    )
    seed: int = Field(0, ge=0, description="of the prototypes")

    @abstractmethod
    def cuts(self, points: Points) -> np.ndarray:
        """int32 [levels, p]: the cluster of each prototype, from 0, level by level, coarse to fine. Each level splits
        clusters of the one before."""

    def level(self, space: IntentionSpace, played: Played) -> int | None:
        """Which one is used; None: no criterion was met, so the finest is taken."""
        return space.levels[-1]

    def choose(self, space: IntentionSpace, played: Played) -> IntentionSpace:
        """With the level in use chosen."""
        level = self.level(space, played) if len(space.levels) > 1 else space.levels[0]
        return replace(space, k=level or space.levels[-1], settled=level is not None)


CLUSTERINGS = Kinds("clustering method", "method", "ward", "reward_service.intentions.clustering", SpaceSettings)
AnySpace = Annotated[SpaceSettings, CLUSTERINGS]
