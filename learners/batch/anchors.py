"""Which games and which turns are comparable: ids for the groups of GRPO, RLOO and GiGPO.

`numbered` turns any keys into ids: equal keys, equal ids. A group's key is the task, which is
the seed of the game, and the seat. A turn's anchor says which state it stands in; it is
compared only within its group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from learners.batch.trajectories import Trajectory


def numbered(keys: Iterable[Hashable]) -> np.ndarray:
    """int64, one for each key, counted in the order of first appearance."""
    ids: dict[Hashable, int] = {}
    return np.array([ids.setdefault(key, len(ids)) for key in keys], np.int64)


def task_groups(trajectories: Sequence[Trajectory]) -> np.ndarray:
    """int64 [trajectories]: games of one task share a number, each seat's apart."""
    return numbered((trajectory.task, trajectory.seat) for trajectory in trajectories)


def observation_anchors(trajectories: Sequence[Trajectory]) -> np.ndarray:
    """int64 [turns]: turns that were shown the same tokens share a number."""
    shown = np.concatenate([trajectory.sequence.versions == -1 for trajectory in trajectories])
    ids = np.concatenate([trajectory.sequence.ids for trajectory in trajectories])[shown].astype(np.int32)
    played = [len(trajectory.rewards) for trajectory in trajectories]
    sizes = [len(trajectory.sequence.ids) for trajectory in trajectories]
    first = np.repeat(np.cumsum(played) - played, sizes)
    turn = (first + np.concatenate([trajectory.sequence.turn for trajectory in trajectories]))[shown]
    ends = ids.itemsize * np.cumsum(np.bincount(turn, minlength=sum(played)))
    text = ids.tobytes()
    return numbered(text[start:end] for start, end in pairwise([0, *ends.tolist()]))


def histories(labels: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """int64 [turns]: turns whose games went the same way until then share a number. `labels`
    are each trajectory's intention labels, one for each of its turns; a turn's own label is
    what it did, so its anchor is the labels before it."""
    return numbered(tuple(row[:turn]) for row in labels for turn in range(len(row)))
