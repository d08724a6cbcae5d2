"""Overlong shaping: utterances that come near their limit are charged, more and more (DAPO, arXiv 2503.14476).

    reward of a turn of n tokens  +=  - weight * max(n - (limit - buffer), 0) / buffer

So a policy that would be cut off learns to end before that, and not only that being cut off was bad. The authors ran a
limit of 20,480 tokens, a buffer of 4,096 and weight 1. A choice among listed actions has one token.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field, model_validator

from envs.settings import Settings


class Overlong(Settings):
    limit: int = Field(64, ge=1, description="longest utterance, in tokens: rollout.max_utterance_tokens")
    buffer: int = Field(16, ge=1, description="the last so many of them cost")
    weight: float = Field(1.0, gt=0, description="what an utterance as long as the limit pays")

    @model_validator(mode="after")
    def buffer_is_inside(self) -> Overlong:
        if self.buffer > self.limit:
            raise ValueError(f"buffer={self.buffer} is more than limit={self.limit}")
        return self

    def rewards(self, tokens: np.ndarray) -> np.ndarray:
        """float64 [turns]"""
        return -self.weight * np.maximum(tokens - (self.limit - self.buffer), 0) / self.buffer
