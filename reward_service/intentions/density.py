"""HDBSCAN in the companion process: the library keeps the interpreter to itself for as long as it
works, seconds for thousands of points, and has no limit of time."""

from __future__ import annotations

import numpy as np

from reward_service.intentions.companion import WorkLost, in_companion


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
