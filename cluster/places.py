"""Room for learner ranks and rollout workers that share cards.

    bundle i of one placement group: one whole card, and on its node the CPUs of
    learner rank i and of rollout worker i, each of which takes a part of the card

Both sit in the same bundle, so Ray gives both the same card: the rank can hand its weights over
in the card's own memory (CUDA IPC). The worker that replaces a lost one goes to the same bundle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cluster.config import RunConfig
from cluster.errors import RunError


@contextmanager
def shared_cards(config: RunConfig) -> Iterator[list[PlacementGroupSchedulingStrategy] | None]:
    """Place i for rank i and worker i; None where they have cards, or CPUs, of their own."""
    if not config.rollout.share_cards:
        yield None
        return
    learner = config.learner
    cpus = (learner.cpus_per_rank or 0.001) + config.rollout.cpus_per_worker
    group = placement_group([{"GPU": 1, "CPU": cpus}] * learner.ranks, strategy="PACK")
    try:
        if not group.wait(learner.start_seconds):
            free = ray.available_resources()
            raise RunError(
                f"no room for learner.ranks={learner.ranks} shared cards within learner.start_seconds="
                f"{learner.start_seconds:g}: each is 1 GPU and {cpus:g} CPUs on one node; free on all nodes together "
                f"are {free.get('GPU', 0.0):g} GPUs and {free.get('CPU', 0.0):g} CPUs"
            )
        yield [PlacementGroupSchedulingStrategy(group, index) for index in range(learner.ranks)]
    finally:
        remove_placement_group(group)
