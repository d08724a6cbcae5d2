"""The window as one space sees it: where each utterance lies, and what its turns add up to.

A version is made beside the one in use, from what was in the window then; what has come and gone
since is brought to it by `follow`, in time proportional to that and not to the window. Then it
is what a version would be that was made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from reward_service.intentions.corpus import Utterance, stacked
from reward_service.intentions.gist import NOTHING, OTHER
from reward_service.intentions.matching import UNCHANGED
from reward_service.intentions.pooling.pooling import GIST
from reward_service.intentions.settings import AggregateSettings
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.window import Centre, CodedEpisode, Window, WindowEpisode

ROUNDING = 1e-3  # equal points may seem so far apart, in 32-bit floats
FIXED = range(OTHER, NOTHING + 1)  # labels that are not clusters: each is its own code


class Since(NamedTuple):
    """What a version has not seen of the window and its utterances."""

    utterances: list[tuple[int, Utterance]]  # by code
    games: list[CodedEpisode]
    first: int  # number of the window's oldest episode now
    end: int  # and of the next one


class Version:
    """`space`: None before the first one, when nothing is labelled. `first`: number of the oldest episode."""

    def __init__(
        self,
        settings: AggregateSettings,
        space: IntentionSpace | None = None,
        first: int = 0,
        centre: Centre | None = None,
    ):
        self.space = space
        self.change = UNCHANGED  # since the version before
        self.before: Version | None = None  # the one it was fitted beside, until it takes its place
        self.where = {label: label for label in FIXED}  # code -> prototype
        self.far: set[int] = set()  # codes outside what the space was fitted on
        self.seen = 0  # every code below it has been placed
        tables = settings.pooling.tables(space.levels, space.k) if space else []
        # an index below 0 counts from the end
        levels = {level for level, _ in tables} - {GIST}
        self._clusters = {level: np.append(space.cuts[space.row(level)], FIXED) for level in levels}
        self.window = Window(settings, tables, self._labels, first, centre)

    @property
    def number(self) -> int:
        return self.space.version if self.space else 0

    def _labels(self, level: int, codes: Sequence[int]) -> np.ndarray:
        """Clusters, not their names: those of one version never meet those of another."""
        return self._clusters[level][np.fromiter(map(self.where.__getitem__, codes), np.int64, len(codes))]

    def labels(self, played: Sequence[WindowEpisode]) -> list[list[np.ndarray]] | None:
        """int64: the finest intention of what each turn said, by the name that it keeps across versions; None without
        labels."""
        clusters = self.window.clusters(played)
        if clusters is None:
            return None
        names = self.space.ids[self.space.row(self.window.level)].astype(np.int64)
        return [[names[each] for each in seats] for seats in clusters]

    def place(self, utterances: Sequence[tuple[int, Utterance]]) -> None:
        if not utterances:
            return
        codes = [code for code, _ in utterances]
        self.seen = codes[-1] + 1
        if self.space:
            rows = stacked([each.embedding for _, each in utterances]).astype(np.float32)
            prototype, distance = self.space.nearest(self.space.features(rows, [each.gist for _, each in utterances]))
            self.where.update(zip(codes, prototype.tolist(), strict=True))
            far = np.flatnonzero(distance > self.space.radius + ROUNDING)
            self.far.update(codes[place] for place in far.tolist())

    def forget(self, codes: Iterable[int]) -> None:
        for code in codes:
            self.where.pop(code, None)
            self.far.discard(code)

    def follow(self, since: Since) -> None:
        self.place(since.utterances)
        self.window.follow(since.games, since.first, since.end)
