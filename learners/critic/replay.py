"""The newest transitions, to be learned from again.

A window: every transition enters once, in the batch's order, and the oldest leave. What is drawn
from it is the caller's generator's alone, so ranks that were given the same batches draw the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from learners.critic.transitions import Transitions


class Replay:
    def __init__(self, size: int, width: int):
        self.size = size
        nothing = np.empty((0, width), np.float32)
        self.held = Transitions(nothing, nothing, np.empty(0), np.empty(0), np.empty(0, bool))

    def __len__(self) -> int:
        return len(self.held)

    def add(self, new: Transitions) -> None:
        new = new[-self.size :]
        old = self.held[max(0, len(self) + len(new) - self.size) :]
        arrays = zip(old.arrays().values(), new.arrays().values(), strict=True)
        self.held = Transitions(*(np.concatenate(pair) for pair in arrays))

    def draw(self, count: int, rng: np.random.Generator) -> Transitions:
        """Any of them may come twice."""
        return self.held[rng.integers(len(self), size=count)]

    def state(self) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(array) for name, array in self.held.arrays().items()}

    def restore(self, state: dict[str, Any]) -> None:
        self.held = Transitions(**{name: tensor.cpu().numpy() for name, tensor in state.items()})[-self.size :]
