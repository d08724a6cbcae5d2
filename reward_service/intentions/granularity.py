"""How many intentions: the cut of the hierarchy that is used.

SplitScore(k) = mean over all turns of |R~ at the cut into k+1  -  R~ at the cut into k|,
R~ being the mean return of a turn's group. k is the smallest one from which on splitting
changes nothing:  SplitScore(j) < epsilon  for all j in [k, k + patience].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial.distance import cdist

from reward_service.intentions.settings import SpaceSettings
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.trajectory import TurnsByDepth

SILHOUETTE_SAMPLE = 2000  # prototypes


def split_scores(turns: TurnsByDepth, levels: Sequence[int], labels: np.ndarray) -> dict[int, float]:
    """k -> SplitScore(k), for each pair of neighbouring levels; labels: int [levels, codes]."""
    if len(turns.values) == 0:
        raise ValueError("no turns to choose a granularity by")
    scores, before = {}, turns.group_means(labels[0])
    for level, row in zip(levels, labels[1:], strict=False):
        finer = turns.group_means(row)
        scores[level] = float(np.abs(finer - before).mean())
        before = finer
    return scores


def settled_level(scores: Mapping[int, float], epsilon: float, patience: int, complete: bool) -> int | None:
    """The k of the definition; None if there is none. `complete`: beyond the last score the
    hierarchy has nothing left to split, so scores there are 0."""
    levels = sorted(scores)
    calm = 0  # how many levels in a row, up to the last, changed nothing
    for level in levels:
        calm = calm + 1 if scores[level] < epsilon else 0
        if calm > patience:
            return level - patience
    if not complete:
        return None
    return levels[-1] - calm + 1 if levels else None


def silhouettes(space: IntentionSpace, seed: int) -> dict[int, float]:
    """k -> mean silhouette over utterances, each prototype standing for its own. A cluster of
    one utterance scores 0."""
    points, weights, cuts = space.prototypes, space.weights, space.cuts
    if len(points) > SILHOUETTE_SAMPLE:
        chosen = np.sort(np.random.default_rng(seed).choice(len(points), SILHOUETTE_SAMPLE, replace=False))
        points, weights, cuts = points[chosen], weights[chosen], cuts[:, chosen]
    distance = cdist(points, points)
    return {level: _silhouette(distance, weights, cut) for level, cut in zip(space.levels, cuts, strict=True)}


def _silhouette(distance: np.ndarray, weights: np.ndarray, cut: np.ndarray) -> float:
    clusters, cut = np.unique(cut, return_inverse=True)
    if len(clusters) < 2:
        return 0.0
    rows = np.arange(len(cut))
    belongs = np.zeros((len(cut), len(clusters)))
    belongs[rows, cut] = weights
    size = belongs.sum(axis=0)
    far = distance @ belongs
    own = far[rows, cut] / np.maximum(size[cut] - 1, 1)
    far /= size
    far[rows, cut] = np.inf
    other = far.min(axis=1)
    largest = np.maximum(own, other)
    score = np.divide(other - own, largest, out=np.zeros_like(own), where=(largest > 0) & (size[cut] > 1))
    return float(np.average(score, weights=weights))


def with_level(
    space: IntentionSpace, settings: SpaceSettings, turns: TurnsByDepth | None, prototype: np.ndarray
) -> IntentionSpace:
    """The space with the level in use chosen; `prototype[code]` says which one a code of the
    turns belongs to."""
    if settings.granularity == "fixed" or len(space.levels) == 1:
        return replace(space, k=space.closest_level(settings.k), settled=True)
    if settings.granularity == "silhouette":
        scores = silhouettes(space, settings.seed)
        return replace(space, k=max(scores, key=lambda level: (scores[level], -level)), settled=True)
    scores = split_scores(turns, space.levels, space.cuts[:, prototype])
    level = settled_level(scores, settings.epsilon, settings.patience, space.levels[-1] == len(space.prototypes))
    return replace(space, k=level or space.levels[-1], settled=level is not None)
