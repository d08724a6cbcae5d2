"""The cut whose clusters are separated best, by their mean silhouette; of equal ones the coarsest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist

from reward_service.intentions.granularity.granularity import Granularity, Played
from reward_service.intentions.space import IntentionSpace

SAMPLE = 2000  # prototypes


class Silhouette(Granularity):
    def level(self, space: IntentionSpace, played: Played, seed: int) -> int:
        found = silhouettes(space, seed)
        return max(found, key=lambda level: (found[level], -level))


def silhouettes(space: IntentionSpace, seed: int, levels: Sequence[int] = ()) -> dict[int, float]:
    """k -> mean silhouette over utterances, each prototype standing for its own; of all levels unless some are
    named. A cluster of one utterance scores 0."""
    points, weights, cuts = space.prototypes, space.weights, space.cuts
    if len(points) > SAMPLE:
        chosen = np.sort(np.random.default_rng(seed).choice(len(points), SAMPLE, replace=False))
        points, weights, cuts = points[chosen], weights[chosen], cuts[:, chosen]
    distance = cdist(points, points)
    return {level: _silhouette(distance, weights, cuts[space.row(level)]) for level in levels or space.levels}


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
