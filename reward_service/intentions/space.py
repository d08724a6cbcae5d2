"""One version of the intentions: prototypes in embedding space, and nested cuts of their tree.

    embedding + amounts -> features -> (principal components) -> nearest prototype -> intention

A space never changes; a refit makes another one with the next version number. It labels any
utterance, at every granularity, without fitting anything again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from reward_service.intentions.gist import Gist
from reward_service.intentions.prototypes import project, surely_nearest
from reward_service.intentions.stored import packed, unpacked

ARRAYS = ("cuts", "ids", "mean", "axes", "prototypes", "weights")
LISTED = ("levels", "amounts", "examples")


@dataclass(frozen=True, eq=False, slots=True)
class IntentionSpace:
    version: int  # 1, 2, ...; each the successor of the one before
    method: str
    levels: tuple[int, ...]  # numbers of clusters, ascending; with hdbscan only one
    k: int  # the level in use
    settled: bool  # whether the criterion for k was met, or the finest level taken for want of one
    cuts: np.ndarray  # int32 [levels, prototypes]: cluster 0..level-1; each level refines the one before
    ids: np.ndarray  # int32 [levels, finest]: the name of each cluster, kept across versions
    fresh: dict[int, int]  # series of ids -> the next one that no version has used; grows only
    mean: np.ndarray  # float32 [features]
    axes: np.ndarray  # float32 [features, components]; [features, 0]: prototypes lie in features
    prototypes: np.ndarray  # float32 [prototypes, components or features]
    weights: np.ndarray  # int64 [prototypes]: utterances that each stands for
    radius: float  # 95 % of the distinct utterances fitted, each left out, lie within this distance of a prototype
    fitted: int  # distinct utterances it was fitted on
    amounts: tuple[str, ...]  # names of the amounts among the features
    amount_weight: float
    examples: tuple[str, ...]  # of each prototype, the utterance nearest to it

    def __post_init__(self) -> None:
        for name in ARRAYS:
            array = np.array(getattr(self, name))  # a copy: whoever made it may go on writing
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def nearest(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prototype of each row, and the distance to it."""
        reduced = project(features, self.mean, self.axes) if self.axes.size else features
        index, squared = surely_nearest(reduced, self.prototypes)
        return index, np.sqrt(squared)

    def names(self, level: int) -> np.ndarray:
        """int32 [prototypes]: the intention of each prototype at a level."""
        row = self.row(level)
        return self.ids[row][self.cuts[row]]

    def row(self, level: int) -> int:
        if level not in self.levels:
            raise ValueError(f"intention space {self.version} has no cut into {level}; it has {self._range()}")
        return self.levels.index(level)

    def _range(self) -> str:
        return f"{self.levels[0]}" + (f" to {self.levels[-1]}" if len(self.levels) > 1 else "")

    def series(self, level: int) -> int:
        """Which ids its clusters are named from: each cut of a hierarchy has its own, and versions
        of a flat clustering share one, whatever number of clusters they find."""
        return 0 if self.method == "hdbscan" else level

    def closest_level(self, level: int) -> int:
        """The finest level that is not finer than `level`; the coarsest if none is that coarse."""
        return max((each for each in self.levels if each <= level), default=self.levels[0])

    def labels(self, features: np.ndarray, level: int | None = None) -> np.ndarray:
        """int32 [n]: intentions at a level, by default at the one in use."""
        return self.names(level or self.k)[self.nearest(features)[0]]

    def members(self, level: int | None = None) -> dict[int, list[tuple[str, int]]]:
        """Intention -> example utterances and how many utterances each stands for, most first."""
        found: dict[int, list[tuple[str, int]]] = {}
        for name, text, weight in zip(self.names(level or self.k), self.examples, self.weights, strict=True):
            found.setdefault(int(name), []).append((text, int(weight)))
        return {name: sorted(found[name], key=lambda each: (-each[1], each[0])) for name in sorted(found)}

    def features(self, embeddings: np.ndarray, gists: Sequence[Gist]) -> np.ndarray:
        return features_of(embeddings, gists, self.amounts, self.amount_weight)

    def _plain(self) -> dict[str, Any]:
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ARRAYS}
        listed = {name: list(plain[name]) for name in LISTED}
        return plain | listed | {"fresh": [[level, number] for level, number in sorted(self.fresh.items())]}

    @classmethod
    def _made(cls, plain: dict[str, Any], arrays: dict[str, np.ndarray]) -> IntentionSpace:
        listed = {name: tuple(plain[name]) for name in LISTED}
        return cls(**(plain | listed | {"fresh": {level: number for level, number in plain["fresh"]}}), **arrays)

    def save(self, folder: Path) -> None:
        """space.npz and space.json, readable without this package."""
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "space.npz", **{name: getattr(self, name) for name in ARRAYS})
        (folder / "space.json").write_text(json.dumps(self._plain(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> IntentionSpace:
        try:
            plain = json.loads((folder / "space.json").read_text(encoding="utf-8"))
            with np.load(folder / "space.npz", allow_pickle=False) as arrays:
                return cls._made(plain, {name: arrays[name] for name in ARRAYS})
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise ValueError(f"{folder} holds no readable intention space: {error}") from error

    def state(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return self._plain() | {name: packed(getattr(self, name)) for name in ARRAYS}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> IntentionSpace:
        plain = {name: value for name, value in state.items() if name not in ARRAYS}
        return cls._made(plain, {name: unpacked(state[name]) for name in ARRAYS})


def features_of(
    embeddings: np.ndarray, gists: Sequence[Gist], amounts: Sequence[str], amount_weight: float
) -> np.ndarray:
    """float32 [n, dimension + amounts]: the unit embedding, then `amount_weight` times each named
    amount, 0 where an utterance has none. So offers lie apart by how much they claim."""
    if not amounts:
        return embeddings.astype(np.float32, copy=False)
    column = {name: number for number, name in enumerate(amounts)}
    beside = np.zeros((len(gists), len(amounts)), np.float32)
    for row, gist in enumerate(gists):
        for name, amount in gist.amounts:
            if name in column:
                beside[row, column[name]] = amount_weight * amount
    return np.hstack([embeddings.astype(np.float32, copy=False), beside])
