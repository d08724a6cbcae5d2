"""One training: a network fitted to examples of a snapshot of the memory, beside everything else.

A model is a function of the snapshot and the settings: it begins afresh each time, its first weights
and the order of the examples come from the seed, and nothing of it depends on who came first. A
training that takes too long or ends in numbers that are none raises, and nothing has changed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch

from reward_service.models.examples import Examples
from reward_service.models.memory import Texts
from reward_service.models.settings import RewardModelSettings

GRADIENT_NORM = 1.0  # longer ones are shortened to it


class TrainingFailed(RuntimeError):
    """The message says why."""


class TimeLimit:
    """Of a training, from now on."""

    def __init__(self, seconds: float):
        self.seconds, self.end = seconds, time.monotonic() + seconds

    def check(self, where: str) -> None:
        if time.monotonic() > self.end:
            raise TrainingFailed(f"{where} when its {self.seconds:g} s were over: see the setting `seconds`")


class Network(Protocol):
    """f(turn), before the offset. `read` turns texts into what the network takes, once for all epochs."""

    whole_games: bool  # whether the turns of a game are best valued together

    def read(self, texts: Texts) -> Any: ...

    def shares(self, read: Any, examples: Sequence[np.ndarray]) -> Iterator[slice]: ...

    def values(self, read: Any, turns: np.ndarray) -> torch.Tensor: ...

    def parameters(self) -> list[torch.nn.Parameter]: ...

    def state(self) -> dict[str, Any]: ...


def offset_of(examples: Examples) -> float:
    """The value that fits best where all turns have the same one. A network learns the rest."""
    lengths = np.array([len(turns) for turns in examples.turns], np.float64)
    return float((examples.weight * lengths) @ examples.target / ((examples.weight * lengths) @ lengths))


def train(
    network: Network, read: Any, examples: Examples, course: RewardModelSettings, seed: int, limit: TimeLimit
) -> float:
    """Returns the offset. The learning rate falls in a straight line to 0."""
    offset = offset_of(examples)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=course.learning_rate, weight_decay=course.weight_decay, foreach=True
    )
    steps = min(course.epochs * -(-len(examples) // course.batch), course.steps or sys.maxsize)
    for done, batch in enumerate(islice(_batches(len(examples), course.batch, seed), steps)):
        for group in optimiser.param_groups:
            group["lr"] = course.learning_rate * (1 - done / steps)
        optimiser.zero_grad()
        for loss in _losses(network, read, examples.chosen(batch), offset):
            loss.backward()
            limit.check(f"it was at step {done + 1} of {steps}")
        length = torch.nn.utils.clip_grad_norm_(network.parameters(), GRADIENT_NORM)
        if not torch.isfinite(length):
            raise TrainingFailed("its gradient is not finite: see the setting `learning_rate`")
        optimiser.step()
    return offset


def _batches(count: int, size: int, seed: int) -> Iterator[np.ndarray]:
    """Numbers of examples, pass after pass in an order of its own, without end."""
    chance = np.random.default_rng(seed)
    while True:
        order = chance.permutation(count)
        yield from (order[first : first + size] for first in range(0, count, size))


def _losses(network: Network, read: Any, batch: Examples, offset: float) -> Iterator[torch.Tensor]:
    """Of as many examples at once as the network takes; they add up to the loss of the batch."""
    whole = float(batch.weight.sum())
    for share in network.shares(read, batch.turns):
        error = _sums(network, read, batch.turns[share], offset) - torch.from_numpy(batch.target[share])
        yield torch.from_numpy(batch.weight[share]) @ error.square() / whole


def _sums(network: Network, read: Any, examples: Sequence[np.ndarray], offset: float) -> torch.Tensor:
    """float64 [examples]: the values of an example's turns, added up."""
    values = network.values(read, np.concatenate(examples)).double() + offset
    owner = np.repeat(np.arange(len(examples)), [len(turns) for turns in examples])
    return torch.zeros(len(examples), dtype=torch.float64).index_add(0, torch.from_numpy(owner), values)


@torch.no_grad()
def values_of(network: Network, read: Any, texts: Texts, offset: float, limit: TimeLimit | None = None) -> np.ndarray:
    """float64 [turns]"""
    turns = np.arange(len(texts.owner))
    pieces = texts.by_game(turns) if network.whole_games else np.split(turns, turns[1:])
    found = []
    for share in network.shares(read, pieces):
        found.append(network.values(read, np.concatenate(pieces[share])).double().numpy())
        if limit:
            limit.check(f"it had valued {sum(map(len, found))} of {len(turns)} turns")
    values = np.concatenate(found) + offset
    if not np.isfinite(values).all():
        raise TrainingFailed("its values are not finite numbers")
    return values
