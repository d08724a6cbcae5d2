"""Controls of credit by intention: the same machinery, with less in it than what was meant.

    EqualTexts             every distinct utterance is a point anywhere, so what clusters hold beside equal utterances
                           has nothing in common; amounts that utterances name still count
    EqualTextsRegressed    the same of regressions
    Shuffled               every turn counts as what another turn of its batch said, so labels tell nothing

What still helps with these does not help because turns that mean the same share their credit.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from envs.settings import GameSettings
from reward_service.intentions.reading import EpisodeReading
from reward_service.shaper import ShapedRewards
from reward_service.shapers.aria import Aria, AriaShaper
from reward_service.shapers.regressed import Regressed

if TYPE_CHECKING:
    from reward_service.shapers.regressed.shaper import RegressedShaper

WIDTH = 384  # as the embeddings that take its place


class EqualTexts(Aria):
    """ARIA over random points instead of embeddings."""

    def make(self, game: GameSettings) -> AriaShaper:
        return AriaShaper(self.intentions, embed=anywhere, gives=self.gives)


class EqualTextsRegressed(Regressed):
    """Regressions on random points instead of embeddings."""

    def make(self, game: GameSettings) -> RegressedShaper:
        from reward_service.shapers.regressed.shaper import RegressedShaper

        return RegressedShaper(self, embed=anywhere)


class Shuffled(Aria):
    """ARIA over what other turns said."""

    def make(self, game: GameSettings) -> ShuffledShaper:
        return ShuffledShaper(self.intentions, gives=self.gives)


class ShuffledShaper(AriaShaper):
    answers = 0

    def answer(self, readings: Sequence[EpisodeReading]) -> list[ShapedRewards]:
        self.answers += 1
        return super().answer(shuffled(readings, self.answers))


def anywhere(texts: Sequence[str]) -> np.ndarray:
    """float32 [texts, WIDTH]: unit rows, equal for equal texts only."""
    if not texts:
        return np.empty((0, WIDTH), np.float32)
    seeds = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") for text in texts]
    rows = np.stack([np.random.default_rng(seed).standard_normal(WIDTH) for seed in seeds])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def shuffled(readings: Sequence[EpisodeReading], seed: int) -> list[EpisodeReading]:
    """What was heard and said is dealt out anew to the turns of all games. Their numbers and outcomes stay."""
    seats = [seat for each in readings for seat in each.seats]
    turns = [turn for seat in seats for turn in zip(seat.said, seat.heard, strict=True)]
    order = np.random.default_rng(seed).permutation(len(turns))
    dealt = iter([turns[place] for place in order])

    def anew(each: EpisodeReading) -> EpisodeReading:
        found = []
        for seat in each.seats:
            said, heard = zip(*islice(dealt, seat.turns), strict=True)
            found.append(seat._replace(said=said, heard=heard))
        return each._replace(seats=found)

    return [anew(each) for each in readings]
