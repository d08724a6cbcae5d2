"""Ward linkage, as in ARIA's released code: the two clusters merge that then lie closest around their mean."""

from __future__ import annotations

import numpy as np

from reward_service.intentions.clustering.agglomerative import Hierarchy


class Ward(Hierarchy):
    """Distances are squared until the tree stands."""

    def between(self, squared: np.ndarray, weight: np.ndarray) -> np.ndarray:
        squared *= 2 * np.outer(weight, weight) / np.add.outer(weight, weight)
        return squared

    def merged(self, x: np.ndarray, y: np.ndarray, gap: float, weight: np.ndarray, wx: float, wy: float) -> np.ndarray:
        return ((weight + wx) * x + (weight + wy) * y - weight * gap) / (weight + wx + wy)

    def heights(self, found: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(found, 0))
