"""A control of credit by intention: the same machinery, where utterances lie anywhere.

Every distinct utterance is a point of its own, drawn by its letters, so clusters hold what has nothing in common. What
still helps with such intentions does not help because of what was meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from envs.settings import GameSettings
from reward_service.shapers.aria import Aria, AriaShaper
from reward_service.shapers.regressed import Regressed

if TYPE_CHECKING:
    from reward_service.shapers.regressed.shaper import RegressedShaper

WIDTH = 384  # as the embeddings that take its place


class Meaningless(Aria):
    """ARIA over random points instead of embeddings."""

    def make(self, game: GameSettings) -> AriaShaper:
        return AriaShaper(self.intentions, embed=anywhere, gives=self.gives)


class MeaninglessRegressed(Regressed):
    """Regressions on random points instead of embeddings."""

    def make(self, game: GameSettings) -> RegressedShaper:
        from reward_service.shapers.regressed.shaper import RegressedShaper

        return RegressedShaper(self, embed=anywhere)


def anywhere(texts: Sequence[str]) -> np.ndarray:
    """float32 [texts, WIDTH]: unit rows, equal for equal texts only."""
    if not texts:
        return np.empty((0, WIDTH), np.float32)
    seeds = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") for text in texts]
    rows = np.stack([np.random.default_rng(seed).standard_normal(WIDTH) for seed in seeds])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
