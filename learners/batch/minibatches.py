"""An update's optimiser steps: which trajectories each of them trains.

    epochs times:   all trajectories, shuffled, cut into `minibatches` nearly equal shares

A share is of whole trajectories and known to all ranks, which divide it among themselves. It
depends on the seed, the update and the epoch alone, so neither ranks nor packing change what
a step trains. With one minibatch there is nothing to shuffle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from learners.batch.packing import Plan, plan
from learners.batch.trajectories import Trajectory
from learners.settings import LearnerSettings


def shares(count: int, settings: LearnerSettings, seed: int, update: int) -> list[list[int]]:
    """Trajectory indices for every step of the update, in order."""
    if settings.minibatches == 1:
        return [list(range(count))] * settings.epochs
    cut = min(settings.minibatches, count)
    return [
        sorted(part.tolist())
        for epoch in range(settings.epochs)
        for part in np.array_split(np.random.default_rng((seed, update, epoch)).permutation(count), cut)
    ]


def plan_share(
    trajectories: Sequence[Trajectory], share: Sequence[int], settings: LearnerSettings, shared: bool = False
) -> Plan:
    """The plan of one share, in indices of the whole batch. `shared`: openings may be computed once."""
    chosen = [trajectories[index] for index in share]
    made = plan(chosen, settings.ranks, settings.tokens_per_micro_batch, shared=shared)
    return [[[share[place] for place in pack] for pack in rank] for rank in made]


def batch_scale(trajectories: Sequence[Trajectory], aggregation: str) -> float:
    """1 / how many tokens, turns or episodes (seats' games) these trajectories train."""
    if aggregation == "token":
        count = sum(int(trajectory.turn_tokens.sum()) for trajectory in trajectories)
    elif aggregation == "turn":
        count = sum(int((trajectory.turn_tokens > 0).sum()) for trajectory in trajectories)
    else:
        count = len(trajectories)
    return 1.0 / max(count, 1)
