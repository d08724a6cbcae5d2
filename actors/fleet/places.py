"""Where workers are put: a placement group for each, which is asked for without waiting.

    ask(worker) -> a group that Ray may not have room for -> learn(news) -> the worker's place, on a node
        a group that waits is what Ray's autoscaler makes a node for

Groups that somebody else has made (`given`) are on nodes that nothing is known of here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from actors.fleet.cluster_news import News
from actors.settings import RolloutSettings

PLACE_SECONDS = 120.0  # for Ray to find room that the cluster does have


class FleetError(RuntimeError):
    """The fleet cannot do what the settings ask."""


class FleetLost(FleetError):
    """A process that the fleet needs was ended from outside while it started. Another try may work."""


@dataclass(slots=True)
class Place:
    group: PlacementGroup
    node: str | None = None  # None: not placed, or not known yet


class Places:
    def __init__(self, settings: RolloutSettings, given: Sequence[PlacementGroupSchedulingStrategy] | None = None):
        self.settings = settings
        bundle = {"CPU": settings.cpus_per_worker, "GPU": settings.gpus_per_worker}
        self.bundle = {name: amount for name, amount in bundle.items() if amount}
        self.given = list(given or [])
        self.asked: dict[int, Place] = {}  # by worker
        self.next: dict[int, Place] = {}  # by worker that is about to leave the place it has

    def take(self, workers: int) -> None:
        """Places for the first ones, waited for."""
        if self.given:
            return
        self._check_resources(workers)
        for worker in range(workers):
            self.ask(worker)
            if worker in self.asked and not self.asked[worker].group.wait(PLACE_SECONDS):
                wanted = ", ".join(f"{amount:g} {name}s" for name, amount in self.bundle.items())
                raise FleetError(
                    f"no room for rollout worker {worker}: no node of the Ray cluster had {wanted} free "
                    f"within {PLACE_SECONDS:.0f} s"
                )

    def _check_resources(self, workers: int) -> None:
        have = ray.cluster_resources()
        for name, each in self.bundle.items():
            if workers * each > have.get(name, 0.0):
                raise FleetError(
                    f"{self.settings.workers_key}={workers} with {each:g} {name}s each need {workers * each:g} "
                    f"{name}s, but the Ray cluster has {have.get(name, 0.0):g}"
                )

    def ask(self, worker: int) -> None:
        """Nothing is asked for twice."""
        if self.bundle and not self.given and worker not in self.asked:
            self.asked[worker] = self._group()

    def _group(self) -> Place:
        return Place(placement_group([self.bundle], strategy="STRICT_PACK"))

    def learn(self, news: News) -> None:
        for place in self.asked.values():
            if place.node is None:
                place.node = news.placed.get(place.group.id.hex())

    def is_placed(self, worker: int) -> bool:
        """Whether a worker that was asked a place for has it."""
        return not self.bundle or bool(self.given) or (worker in self.asked and self.asked[worker].node is not None)

    def node(self, worker: int) -> str | None:
        return self.asked[worker].node if worker in self.asked else None

    def of(self, worker: int) -> PlacementGroupSchedulingStrategy | None:
        if self.given:
            return self.given[worker]
        return PlacementGroupSchedulingStrategy(self.asked[worker].group, 0) if worker in self.asked else None

    def ask_next(self, worker: int) -> None:
        """For the place that it moves to."""
        if worker not in self.next:
            self.next[worker] = self._group()

    def move(self, worker: int) -> None:
        """Out of the place that it has, into the next one, which is asked for now if it was not yet."""
        remove_placement_group(self.asked.pop(worker).group)
        self.asked[worker] = self.next.pop(worker, None) or self._group()

    def close(self) -> None:
        for place in [*self.asked.values(), *self.next.values()]:
            remove_placement_group(place.group)
        self.asked, self.next = {}, {}
