"""Two versions of an intention space, compared on the same utterances.

Ids are kept level by level: clusters of both versions are paired so that as many utterances as
possible stay together (Hungarian method), and a pair that overlaps well keeps its id. What
finds no partner gets an id that no version has used at that level.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from reward_service.intentions.space import IntentionSpace


class Change(NamedTuple):
    agreement: float  # adjusted Rand index of the two labellings; 1: the same partition, about 0: by chance
    moved: float  # share of utterances outside the best one-to-one pairing of clusters


UNCHANGED = Change(agreement=1.0, moved=0.0)


def shared(one: np.ndarray, two: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """float64 [clusters of one, clusters of two]: utterances that are in both; labels from 0."""
    width = int(two.max()) + 1
    size = (int(one.max()) + 1) * width
    return np.bincount(one.astype(np.int64) * width + two, counts, size).reshape(-1, width)


def compare(one: np.ndarray, two: np.ndarray, counts: np.ndarray) -> Change:
    overlap = shared(np.unique(one, return_inverse=True)[1], np.unique(two, return_inverse=True)[1], counts)
    total = overlap.sum()
    paired = overlap[linear_sum_assignment(overlap, maximize=True)].sum()
    return Change(agreement=_adjusted_rand(overlap), moved=float(1 - paired / total))


def _adjusted_rand(overlap: np.ndarray) -> float:
    def pairs(sizes: np.ndarray) -> float:
        return float((sizes * (sizes - 1)).sum() / 2)

    together, one, two = pairs(overlap), pairs(overlap.sum(axis=1)), pairs(overlap.sum(axis=0))
    every = pairs(overlap.sum(keepdims=True))
    expected = one * two / every if every else 0.0
    most = (one + two) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def keep_ids(
    old: IntentionSpace,
    new: IntentionSpace,
    old_prototype: np.ndarray,
    new_prototype: np.ndarray,
    counts: np.ndarray,
    keep: float,
) -> IntentionSpace:
    """`new` with the ids of `old` wherever clusters match, seen on utterances whose prototypes in
    both are given. `keep`: the smallest overlap, |both| / |either|, that counts as the same."""
    ids, fresh = np.array(new.ids), dict(old.fresh)
    for row, level in enumerate(new.levels):
        names = np.full(level, -1, np.int32)
        series = new.series(level)
        known = {old.series(each): each for each in old.levels}
        if series in known:
            before = old.row(known[series])
            overlap = shared(old.cuts[before][old_prototype], new.cuts[row][new_prototype], counts)
            either = overlap.sum(axis=1, keepdims=True) + overlap.sum(axis=0, keepdims=True) - overlap
            for one, two in zip(*linear_sum_assignment(overlap, maximize=True), strict=True):
                if overlap[one, two] > 0 and overlap[one, two] >= keep * either[one, two]:
                    names[two] = old.ids[before, one]
        unnamed = np.flatnonzero(names < 0)
        unused = fresh.get(series, 0)
        names[unnamed] = np.arange(unused, unused + len(unnamed))
        fresh[series] = unused + len(unnamed)
        ids[row, :level] = names
    return replace(new, ids=ids, fresh=fresh)
