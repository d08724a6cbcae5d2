"""What a model learns from: sums of turn values that should equal a target.

    loss = sum of  weight * (sum of f(turn) over the example's turns - target)^2   /  sum of weights

One turn to an example is regression turn by turn; all turns of a game with its outcome as the target
shares the outcome out. Turns are numbered through all games of a `Texts`, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from reward_service.models.memory import Texts


class Examples(NamedTuple):
    turns: list[np.ndarray]  # of each example, the numbers of its turns
    target: np.ndarray  # float64
    weight: np.ndarray  # float64

    def __len__(self) -> int:
        return len(self.turns)

    def chosen(self, numbers: Sequence[int] | np.ndarray) -> Examples:
        return Examples([self.turns[number] for number in numbers], self.target[numbers], self.weight[numbers])


def by_turn(texts: Texts, target: np.ndarray, weight: np.ndarray) -> Examples:
    return Examples(list(np.arange(len(texts.owner))[:, None]), target, weight)


def by_game(texts: Texts) -> Examples:
    outcomes = np.array([game.outcome for game in texts.games], np.float64)
    return Examples(texts.by_game(np.arange(len(texts.owner))), outcomes, np.ones(len(outcomes)))


def held_out_games(texts: Texts, share: float, seed: int) -> np.ndarray:
    """bool [games]: this share of the episodes, at least one of them and never all. Seats of one
    episode stay together. Which they are is the hash of their names, so the same ones, as long as
    they are remembered, are held out of one training after another."""
    names = sorted({game.identity for game in texts.games})
    if len(names) < 2:
        raise ValueError(f"a model is trained on at least 2 episodes, one of them held out, not on {len(names)}")
    count = min(max(round(share * len(names)), 1), len(names) - 1)
    drawn = set(sorted(names, key=lambda name: blake2b(f"{seed} {name}".encode()).digest())[:count])
    return np.array([game.identity in drawn for game in texts.games])


def measures(predicted: np.ndarray, target: np.ndarray) -> dict[str, float]:
    """Of held-out examples: mean squared and mean absolute error, the share with an error of at most
    .1, the correlation, and the share of the variance that is explained; the last two 0 where there
    is no variance."""
    error, spread, scale = predicted - target, float(target.var()), float(predicted.std() * target.std())
    together = float(np.mean((predicted - predicted.mean()) * (target - target.mean())))
    return {
        "mse": float(np.mean(error**2)),
        "mae": float(np.mean(np.abs(error))),
        "within_tenth": float(np.mean(np.abs(error) <= 0.1)),
        "correlation": together / scale if scale else 0.0,
        "explained": 1 - float(np.mean(error**2)) / spread if spread else 0.0,
    }
