"""Credit: per-turn rewards in, per-token advantages out; pure functions of ragged arrays.

A method is one file and one line in METHODS. It takes

    method(turns: Turns, settings: CreditSettings, state: dict[str, float]) -> Credit

and returns one advantage for every trained token of the batch, in batch order. What it
must remember between updates is in `state`, which is saved with the run; it never
changes the dictionary it was given, so an update that fails leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from learners.batch import Trajectory
from learners.settings import CreditSettings

METHODS = {
    "reinforce": "learners.credit.reinforce:reinforce",
}


@dataclass(slots=True)
class Turns:
    """All turns of a batch, trajectory after trajectory."""

    offsets: np.ndarray  # int64 [trajectories + 1]: trajectory i has turns offsets[i]:offsets[i + 1]
    rewards: np.ndarray  # float64 [turns]
    tokens: np.ndarray  # int64 [turns]: trained tokens in each turn
    episode: np.ndarray  # int64 [trajectories]: seats of one game share it
    terminated: np.ndarray  # bool [trajectories]; False: cut off by the horizon

    @property
    def trajectory(self) -> np.ndarray:
        """int64 [turns]: the trajectory of each turn."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @property
    def index(self) -> np.ndarray:
        """int64 [turns]: the place of each turn in its trajectory."""
        return np.arange(len(self.rewards)) - self.offsets[self.trajectory]


@dataclass(slots=True)
class Credit:
    advantages: np.ndarray  # float32 [trained tokens]
    returns: np.ndarray  # float64 [turns]
    state: dict[str, float] = field(default_factory=dict)
    targets: np.ndarray | None = None  # float32 [trained tokens], of methods with a value function


Method = Callable[[Turns, CreditSettings, dict[str, float]], Credit]


def turns_of(trajectories: Sequence[Trajectory]) -> Turns:
    sizes = [len(trajectory.rewards) for trajectory in trajectories]
    return Turns(
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        rewards=np.concatenate([trajectory.rewards for trajectory in trajectories]),
        tokens=np.concatenate([trajectory.turn_tokens for trajectory in trajectories]),
        episode=np.array([trajectory.number for trajectory in trajectories], np.int64),
        terminated=np.array([trajectory.terminated for trajectory in trajectories], bool),
    )


def assign_credit(trajectories: Sequence[Trajectory], settings: CreditSettings, state: dict[str, float]) -> Credit:
    """Credit by the configured method. Rewards that already are advantages are only
    spread over their turns' tokens."""
    turns = turns_of(trajectories)
    if trajectories[0].kind == "advantage":
        return Credit(np.repeat(turns.rewards, turns.tokens).astype(np.float32), turns.rewards, dict(state))
    module, _, name = METHODS[settings.method].partition(":")
    method: Method = getattr(import_module(module), name)
    return method(turns, settings, state)
