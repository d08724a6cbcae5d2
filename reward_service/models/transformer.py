"""A Hugging Face model that reads the game, all of its weights trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from reward_service.models.memory import Texts
from reward_service.models.settings import Reads, RewardModelSettings

if TYPE_CHECKING:
    from reward_service.models.reader import TransformerReader


class Transformer(RewardModelSettings):
    path: str = Field(min_length=1, description="model folder or hub name")
    max_tokens: int = Field(512, ge=8, description="longest text that is read at once; of a longer one, its end")
    learning_rate: float = Field(2e-5, gt=0, description="of AdamW")
    epochs: int = Field(3, ge=1, description="passes over the examples, at most")
    tokens_at_once: int = Field(8192, ge=1, description="most tokens, padding too, in a pass over several texts")

    def fresh(self, reads: Reads, texts: Texts) -> TransformerReader:
        from reward_service.models.reader import TransformerReader

        return TransformerReader(self, reads, self.seed)

    def of_state(self, reads: Reads, state: dict[str, Any]) -> TransformerReader:
        from reward_service.models.reader import TransformerReader

        return TransformerReader.of_state(self, reads, state)

    def check(self, reads: Reads) -> None:
        self.fresh(reads, Texts([], {}, np.empty((0, 0), np.float32)))
