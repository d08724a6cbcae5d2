"""Ridge regression from past batches, which scores the present one.

    weights = (Z'Z + penalty I)^-1 Z'y      Z: the features of the batches before, standardised

No batch is predicted by a fit that has seen it, so no episode scores itself, and the error
on each new batch is an honest one. It chooses the penalty: the one with the smallest running
error, infinity included. Where features tell nothing, that one wins, predictions are the mean,
and whoever adds them to something adds nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0, 30_000.0, np.inf)
MEMORY = 0.7  # of the running errors, a batch


class PastRidge:
    def __init__(self, batches: int):
        self.past: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=batches)
        self.errors = np.zeros(len(PENALTIES))  # running mean squared errors
        self.spread = 0.0  # running variance of what was predicted
        self.weight = 0.0  # of the running sums; below 1 while young

    def predict(self, features: np.ndarray) -> np.ndarray | None:
        """float64 [turns] at the penalty in use; None before there is a past."""
        found = self._at_all(features)
        return None if found is None else found[:, self.choice]

    @property
    def choice(self) -> int:
        """Of the penalties: the last, infinity, until an error has been seen."""
        return int(np.argmin(self.errors)) if self.weight else len(PENALTIES) - 1

    @property
    def penalty(self) -> float:
        return PENALTIES[self.choice]

    @property
    def explained(self) -> float:
        """Share of the variance that was predicted, on batches no fit had seen."""
        return 1.0 - float(self.errors[self.choice]) / self.spread if self.spread > 0 else 0.0

    def learn(self, features: np.ndarray, targets: np.ndarray) -> None:
        """Measure every penalty on this batch, then make it part of the past."""
        found = self._at_all(features)
        if found is not None:
            errors = ((found - targets[:, None]) ** 2).mean(axis=0)
            self.errors = MEMORY * self.errors + (1 - MEMORY) * errors
            self.spread = MEMORY * self.spread + (1 - MEMORY) * float(errors[-1])  # infinity predicts the mean
            self.weight = MEMORY * self.weight + 1 - MEMORY
        self.past.append((features.astype(np.float64), targets.astype(np.float64)))

    def _at_all(self, features: np.ndarray) -> np.ndarray | None:
        """float64 [turns, penalties]"""
        if not self.past:
            return None
        rows = np.concatenate([each for each, _ in self.past])
        targets = np.concatenate([each for _, each in self.past])
        mean, level = rows.mean(axis=0), targets.mean()
        scale = rows.std(axis=0)
        useful = scale > 1e-6
        rows, asked = ((each[:, useful] - mean[useful]) / scale[useful] for each in (rows, features))
        lengths, directions = np.linalg.eigh(rows.T @ rows)
        along = directions.T @ (rows.T @ (targets - level))
        shrunk = along[:, None] / (np.maximum(lengths, 0.0)[:, None] + np.array(PENALTIES))
        return level + (asked @ directions) @ shrunk

    def state(self) -> dict[str, Any]:
        return {
            "features": [each for each, _ in self.past],
            "targets": [each for _, each in self.past],
            "errors": self.errors,
            "spread": self.spread,
            "weight": self.weight,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.past.clear()
        self.past.extend(zip(state["features"], state["targets"], strict=True))
        self.errors, self.spread, self.weight = state["errors"], state["spread"], state["weight"]
