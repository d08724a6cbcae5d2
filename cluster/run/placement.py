"""Room for learner ranks and rollout workers that share cards.

    bundle i of one placement group: a whole card, and on its node the CPUs of
    learner rank i and of rollout worker i, each of which takes a part of the card

Both sit in the same bundle, so Ray gives both the same card: the rank can hand its weights over
in the card's own memory (CUDA IPC). The worker that replaces a lost one goes to the same bundle.
Where there are more of the one than of the other, the last cards have a part that nobody takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.errors import RunError
from cluster.recipe.config import RunConfig


@contextmanager
def shared_cards(config: RunConfig) -> Iterator[list[PlacementGroupSchedulingStrategy] | None]:
    """Place i for rank i and worker i of a planned config; None where they have cards of their own."""
    if not config.rollout.share_cards:
        yield None
        return
    rollout, learner = config.rollout, config.learner
    ranks = [learner.cpus_per_rank or 0.001] * learner.ranks  # LearnerGroup asks for no less
    workers = [rollout.cpus_per_worker] * rollout.least_workers  # a fixed number here
    cpus = [sum(both) for both in zip_longest(ranks, workers, fillvalue=0.0)]
    group = placement_group([{"GPU": 1.0} | ({"CPU": each} if each else {}) for each in cpus], strategy="PACK")
    try:
        if not group.wait(learner.start_seconds):
            free = ray.available_resources()
            raise RunError(
                f"no room for learner.ranks={learner.ranks} and rollout.workers={rollout.workers} on shared cards "
                f"within learner.start_seconds={learner.start_seconds:g}: that is {len(cpus)} GPUs, each with "
                f"{max(cpus):g} CPUs on its node; free on all nodes together are {free.get('GPU', 0.0):g} GPUs and "
                f"{free.get('CPU', 0.0):g} CPUs"
            )
        yield [PlacementGroupSchedulingStrategy(group, index) for index in range(len(cpus))]
    finally:
        remove_placement_group(group)
