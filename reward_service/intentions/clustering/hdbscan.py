"""HDBSCAN: one flat cut, of as many clusters as there are dense regions.

It works in the companion process: the library keeps the interpreter to itself for as long as it works, seconds
for thousands of points, and has no limit of time. What it calls noise joins its neighbours, so every
utterance has an intention.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from envs.settings import Resource
from reward_service.intentions.clustering.clustering import Points, SpaceSettings
from reward_service.intentions.companion import WorkLost, in_companion
from reward_service.intentions.prototypes import nearest, principal_axes, project

COMPONENTS = 16  # density means nothing in hundreds of dimensions
SAMPLE = 20_000  # distinct utterances whose density is looked at


class Hdbscan(SpaceSettings):
    min_cluster: int = Field(10, ge=2, description="fewest distinct utterances in a cluster")
    density_seconds: Resource[float] = Field(300.0, gt=0, description="time limit of the process that it runs in")

    def cuts(self, points: Points) -> np.ndarray:
        """On at most SAMPLE points. Each prototype takes the cluster that most of its points are in, and without any,
        that of the nearest which has one."""
        sample = np.arange(len(points.rows))
        if len(sample) > SAMPLE:
            sample = np.sort(np.random.default_rng(self.seed).choice(len(sample), SAMPLE, replace=False))
        looked_at = points.rows[sample].astype(np.float64)
        if looked_at.shape[1] > COMPONENTS:
            mean, axes = principal_axes(looked_at, np.ones(len(sample)), COMPONENTS)
            looked_at = project(looked_at, mean, axes).astype(np.float64)
        one = np.zeros((1, len(points.prototypes)), np.int32)
        if len(sample) <= self.min_cluster:
            return one
        found = density_clusters(looked_at, self.min_cluster, self.density_seconds)
        clustered = found >= 0
        if not clustered.any():
            return one
        votes = np.zeros((len(points.prototypes), int(found.max()) + 1), np.int64)
        np.add.at(votes, (points.prototype[sample[clustered]], found[clustered]), 1)
        decided = votes.any(axis=1)
        labels = votes.argmax(axis=1)
        closest, _ = nearest(points.prototypes, points.prototypes[decided])
        labels = np.where(decided, labels, labels[decided][closest])
        return np.unique(labels, return_inverse=True)[1].astype(np.int32)[None]


class ClusteringError(RuntimeError):
    """Points could not be clustered; the message says why."""


def density_clusters(points: np.ndarray, min_cluster: int, seconds: float) -> np.ndarray:
    """int64 [n]: the cluster of each point, below 0 where it is in none."""
    try:
        return in_companion(hdbscan, points, min_cluster, seconds=seconds)
    except WorkLost as error:
        limit = f"reward.shaper.intentions.space.density_seconds={seconds:g}"
        raise ClusteringError(f"{len(points)} points were not clustered: {error} ({limit})") from error
    except Exception as error:
        raise ClusteringError(f"{len(points)} points were not clustered: {type(error).__name__}: {error}") from error


def hdbscan(points: np.ndarray, min_cluster: int) -> np.ndarray:
    from hdbscan import HDBSCAN

    return HDBSCAN(min_cluster_size=min_cluster, core_dist_n_jobs=1).fit_predict(points).astype(np.int64)
