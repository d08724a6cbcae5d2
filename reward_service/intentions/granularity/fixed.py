"""So many intentions: the finest cut that has no more than `k`."""

from __future__ import annotations

from pydantic import Field

from reward_service.intentions.granularity.granularity import Granularity, Played
from reward_service.intentions.space import IntentionSpace


class Fixed(Granularity):
    k: int = Field(20, ge=1, description="number of intentions")

    def level(self, space: IntentionSpace, played: Played, seed: int) -> int:
        return space.closest_level(self.k)
