"""Which games and which turns are comparable: ids for the groups of GRPO, GiGPO and their neighbours.

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


def utterance_openings(trajectories: Sequence[Trajectory], tokens: int) -> np.ndarray:
    """int64 [turns]: turns share a number if so many first tokens of what was said are the same, or all of them."""
    keys = []
    for each in trajectories:
        said = each.sequence.versions != -1
        ids, sizes = each.sequence.ids[said], np.bincount(each.sequence.turn[said], minlength=len(each.rewards))
        keys += [ids[end - size : end][:tokens].tobytes() for size, end in zip(sizes, np.cumsum(sizes), strict=True)]
    return numbered(keys)


def state_anchors(task: np.ndarray, states: np.ndarray, distance: float) -> np.ndarray:
    """int64 [turns]: turns of a task whose states are near each other share a number. Turn after turn goes into the
    cluster whose mean is nearest to it, or opens a new one if that is further away than `distance` (1 - cosine)."""
    length = np.linalg.norm(states.astype(np.float64), axis=-1, keepdims=True)
    directions = np.divide(states, length, out=np.zeros(states.shape), where=length > 0)
    anchors, found = np.empty(len(states), np.int64), 0
    for members in (np.flatnonzero(task == each) for each in np.unique(task)):
        sums, means = np.zeros((2, len(members), states.shape[-1]))
        clusters = 0
        for turn in members:
            cosines = means[:clusters] @ directions[turn]
            near = clusters > 0 and 1 - cosines.max() <= distance
            place = int(cosines.argmax()) if near else clusters
            clusters += not near
            sums[place] += directions[turn]
            means[place] = sums[place] / (np.linalg.norm(sums[place]) or 1.0)  # no direction where nothing was said
            anchors[turn] = found + place
        found += clusters
    return anchors


def histories(labels: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """int64 [turns]: turns whose games went the same way until then share a number. `labels`
    are each trajectory's intention labels, one for each of its turns; a turn's own label is
    what it did, so its anchor is the labels before it."""
    return numbered(tuple(row[:turn]) for row in labels for turn in range(len(row)))
