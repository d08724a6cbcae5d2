"""Average linkage, as in ARIA's paper: the two clusters merge whose points lie least apart on average.

Where kinds of utterances overlap it leaves nearly all of them in one cluster.
"""

from __future__ import annotations

import numpy as np

from reward_service.intentions.clustering.agglomerative import Hierarchy


class Average(Hierarchy):
    def between(self, squared: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.sqrt(squared, out=squared)

    def merged(self, x: np.ndarray, y: np.ndarray, gap: float, weight: np.ndarray, wx: float, wy: float) -> np.ndarray:
        return (wx * x + wy * y) / (wx + wy)
