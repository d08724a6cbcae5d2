"""HDBSCAN in a process of its own.

The library keeps the interpreter to itself for as long as it works, seconds for thousands of
points: beside it, no thread of this process would shape a batch. It also has no limit of time.
"""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO

import numpy as np


class ClusteringError(RuntimeError):
    """Points could not be clustered; the message says why."""


def density_clusters(points: np.ndarray, min_cluster: int, seconds: float) -> np.ndarray:
    """int64 [n]: the cluster of each point, below 0 where it is in none."""
    given = BytesIO()
    np.save(given, points)
    # -P: this file's folder holds modules of ours, not of the library's
    command = [sys.executable, "-P", __file__, str(min_cluster)]
    try:
        done = subprocess.run(command, input=given.getvalue(), capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ClusteringError(
            f"HDBSCAN of {len(points)} points took more than {seconds:g} s (reward.intentions.space.density_seconds)"
        ) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ClusteringError(f"HDBSCAN of {len(points)} points failed: {said[-1] if said else done.returncode}")
    return np.load(BytesIO(done.stdout)).astype(np.int64)


if __name__ == "__main__":
    from hdbscan import HDBSCAN

    clusters = HDBSCAN(min_cluster_size=int(sys.argv[1]), core_dist_n_jobs=1)
    np.save(sys.stdout.buffer, clusters.fit_predict(np.load(BytesIO(sys.stdin.buffer.read()))))
