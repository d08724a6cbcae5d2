"""The newest batches, which the next updates learn from once more (`learner.replay_batches`).

Their tokens are of older weights, and the loss treats them as it does those of a stale batch. Rewards stay as they were
paid; credit is assigned anew, with what the critic says by now. Every rank holds all of them, as it is given the whole
of each batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from envs.episode import Choice, SeatSequence
from learners.batch.trajectories import Trajectory, check_together


class ReplayedBatches:
    device = torch.device("cpu")

    def __init__(self, batches: int):
        self.held: deque[list[Trajectory]] = deque(maxlen=batches)

    def with_new(self, batch: Sequence[Trajectory]) -> list[Trajectory]:
        """All that an update learns from, the new ones last."""
        every = [trajectory for held in (*self.held, batch) for trajectory in held]
        check_together(every)
        return every

    def add(self, batch: Sequence[Trajectory]) -> None:
        self.held.append(list(batch))

    def state(self) -> list[Any]:
        """In plain values and tensors, which torch reads back without running anybody's code."""
        return [[_plain(trajectory) for trajectory in batch] for batch in self.held]

    def restore(self, state: list[Any]) -> None:
        self.held.clear()
        self.held.extend([_trajectory(each) for each in batch] for batch in state)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    return value.item() if isinstance(value, np.generic) else value


def _arrays(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each.numpy() if isinstance(each, torch.Tensor) else each for name, each in value.items()}


def _trajectory(value: dict[str, Any]) -> Trajectory:
    sequence = _arrays(value["sequence"])
    sequence["choices"] = {place: Choice(**_arrays(choice)) for place, choice in sequence["choices"].items()}
    return Trajectory(**_arrays(value) | {"sequence": SeatSequence(**sequence)})
