"""The processes of the rollout workers: started where there is room, replaced when they are lost, let go with their
nodes.

    place -> start -> up ... lost (started again, or rests) | its node is gone, or about to go (waits for another place)

Whoever holds a worker's work is told by `ended(worker, reason)`, before another process takes its place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from actors.fleet.cluster_news import ClusterNews
from actors.fleet.health import FleetHealth, State
from actors.fleet.places import FleetError, FleetLost, Places
from actors.settings import RolloutSettings
from actors.worker import RolloutWorker, WorkerLost
from actors.worker_parts import WorkerSpec
from envs.settings import keys_of

log = logging.getLogger("parley.fleet")
MESSAGE = 300  # characters of a cause
CLOSE_SECONDS = 10.0
NEWS_SECONDS = 5.0  # for Ray to say which nodes live, when a worker is lost
RPC_THREADS = 8
GONE, DRAINED = "node_gone", "node_drained"  # why a worker leaves


class WorkerProcesses:
    def __init__(
        self,
        settings: RolloutSettings,
        spec: WorkerSpec,
        places: Sequence[PlacementGroupSchedulingStrategy] | None,
        ended: Callable[[int, str], None],
    ):
        self.settings, self.spec, self.ended = settings, spec, ended
        self.places, self.news = Places(settings, places), ClusterNews()
        self.health: FleetHealth | None = None
        self.handles: dict[int, ActorHandle] = {}  # by worker; of those that were started
        self.starting: dict[int, ray.ObjectRef] = {}  # worker -> its `ready` call
        self.draining: frozenset[str] = frozenset()  # nodes
        self.put_off: dict[int, int] | None = None  # worker -> incarnation to start later; None: starts at once

    def prepare(self) -> None:
        """Begin to start the processes of the workers that have to be there, which import what their engines need."""
        self.places.take(self.settings.least_workers)
        for index in range(self.settings.least_workers):
            self.handles[index] = self._create(index, incarnation=0)

    def launch(self) -> None:
        """Begin to start the engines of these workers; `start` waits for them."""
        if not self.handles:
            self.prepare()
        least, most = self.settings.least_workers, self.settings.most_workers
        self.health = FleetHealth(
            least,
            pending=most - least,
            start_seconds=self.settings.engine.start_seconds,
            silence_seconds=self.settings.worker_silence_seconds,
            max_restarts=self.settings.max_worker_restarts,
            now=time.monotonic(),
        )
        self.starting = {index: handle.ready.remote() for index, handle in self.handles.items()}

    def start(self) -> None:
        """Wait until every worker's engine is up. The first failure stops the start."""
        deadline = time.monotonic() + self.settings.engine.start_seconds
        for index, call in sorted(self.starting.items()):
            try:
                ray.get(call, timeout=max(0.0, deadline - time.monotonic()))
            except GetTimeoutError:
                raise FleetError(
                    f"rollout worker {index} did not start within "
                    f"rollout.engine.start_seconds={self.settings.engine.start_seconds:.0f}: raise it, or give the "
                    "machine less else to do"
                ) from None
            except RayTaskError as error:
                failed = FleetLost if isinstance(error.cause, WorkerLost) else FleetError
                raise failed(f"the fleet did not start: {error.cause or error}") from error
            except (RayActorError, OutOfMemoryError) as error:
                raise FleetLost(f"rollout worker {index} died while starting: {last_line(error)}") from error
            self.health.ready(index)
        self.starting.clear()

    def started(self, index: int) -> None:
        """Its `ready` call has returned."""
        del self.starting[index]
        self.health.ready(index)

    def _start(self, index: int, incarnation: int) -> None:
        if self.put_off is None:
            self._start_now(index, incarnation)
        else:
            self.put_off[index] = incarnation

    def _start_now(self, index: int, incarnation: int) -> None:
        self.handles[index] = self._create(index, incarnation)
        self.starting[index] = self.handles[index].ready.remote()

    def _create(self, index: int, incarnation: int) -> ActorHandle:
        settings, place = self.settings, self.places.of(index)
        name = f"parley-{self.spec.run}-rollout-{index}" + (f"-r{incarnation}" if incarnation else "")
        options: dict[str, Any] = {
            "name": name,
            "num_cpus": settings.cpus_per_worker,
            "num_gpus": settings.gpus_per_worker or 0.0,
            "max_restarts": 0,
            "max_concurrency": RPC_THREADS,
            "runtime_env": {"env_vars": environment(settings) | keys_of(settings, *self.spec.games.values())},
        }
        if place is not None:
            options["scheduling_strategy"] = place
        return ray.remote(RolloutWorker).options(**options).remote(self.spec, index)

    @contextmanager
    def no_starts(self) -> Iterator[None]:
        """Starts are put off until the end of it, of the outer one if there are two."""
        if self.put_off is not None:
            yield
            return
        self.put_off = {}
        try:
            yield
        finally:
            put_off, self.put_off = self.put_off, None
            for index, incarnation in put_off.items():
                self.health.put_off(index, time.monotonic())
                self._start_now(index, incarnation)

    def lose(self, index: int, reason: str, cause: str = "") -> None:
        """A worker that is no longer of use ends, and its replacement starts."""
        if self.health.members[index].state is State.LEAVING:
            return self._leave(index, DRAINED)
        if self._node_is_gone(index):
            return self._leave(index, GONE)
        why = f"{reason}: {cause}" if cause else reason
        log.warning("rollout worker %d is lost: %s", index, why)
        self._end(index, reason)
        incarnation = self.health.lost(index, why, time.monotonic())
        if incarnation is None:
            log.warning("rollout worker %d was lost too often within an hour: it rests, the others go on", index)
        else:
            self._start(index, incarnation)

    def _node_is_gone(self, index: int) -> bool:
        node = self.places.node(index)
        news = self.news.fresh(NEWS_SECONDS) if node is not None else None
        return news is not None and node not in news.alive

    def _end(self, index: int, reason: str) -> None:
        """Only its own handle is killed."""
        self.starting.pop(index, None)
        if index in self.handles:
            ray.kill(self.handles[index])
        self.ended(index, reason)

    def look_after(self, works: Callable[[int], bool]) -> None:
        """Do what is due, and wait for nothing. `works`: whether a worker has tickets."""
        for index in self.health.suspect(time.monotonic()):
            log.warning("rollout worker %d is late with its answer: it gets no new tickets until it answers", index)
        for index, reason in self.health.overdue(time.monotonic()):
            if index not in (self.put_off or ()):
                self.lose(index, reason)
        for index, incarnation in self.health.due(time.monotonic()):
            self._start(index, incarnation)
        if not self.places.given:
            self._breathe(works)

    # Nodes that come and go

    def _breathe(self, works: Callable[[int], bool]) -> None:
        """Ask for the places that are missing, let go of the workers whose node goes, start those that have a place."""
        for index in self.health.in_state(State.PENDING):
            self.places.ask(index)
        news = self.news.newest()
        if news is not None:
            self.places.learn(news)
            self.draining = frozenset(news.draining)
            for index in range(len(self.health.members)):
                node = self.places.node(index)
                if node is not None and node not in news.alive:
                    self._leave(index, GONE)
                elif node is not None and node in news.draining:
                    self._told_to_leave(index, news.draining[node])
            for index in self.health.in_state(State.PENDING):
                if self.places.is_placed(index):
                    self._start(index, self.health.placed(index, time.monotonic()))
        for index in self.health.leaving(time.monotonic(), works):
            self._leave(index, DRAINED)

    def _told_to_leave(self, index: int, until: float | None) -> None:
        """It may end what it plays, as long as its node lasts; only what plays has something to end."""
        if self.health.told_to_leave(index, until):
            left = "" if until is None else f", which ends in {max(0.0, until - time.monotonic()):.0f} s"
            log.warning("rollout worker %d gets no new tickets: Ray drains its node%s", index, left)
            self.places.ask_next(index)
            self.handles[index].hurry.remote()
        elif self.health.members[index].state is not State.LEAVING:
            self._leave(index, DRAINED)

    def _leave(self, index: int, reason: str) -> None:
        """End a worker whose node is gone or about to go, and ask for another place for it."""
        self.places.move(index)
        if self.health.members[index].state is State.PENDING:
            return
        log.warning("rollout worker %d leaves: %s", index, reason)
        self._end(index, reason)
        self.health.left(index, time.monotonic())
        if self.put_off is not None:
            self.put_off.pop(index, None)

    def close(self) -> None:
        """End every process that was started here and give its place back. One that still starts could not answer."""
        calls = list(self.starting.values())
        still = ray.wait(calls, num_returns=len(calls), timeout=0)[1] if calls else []
        launched = self.handles.items() if self.health is not None else ()
        up = [handle for index, handle in launched if self.starting.get(index) not in still]
        closing = [handle.close.remote() for handle in up]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=CLOSE_SECONDS)
        for handle in self.handles.values():
            ray.kill(handle)
        self.news.close(NEWS_SECONDS)
        self.places.close()
        self.handles, self.starting = {}, {}


def environment(settings: RolloutSettings) -> dict[str, str]:
    """Ray does not hide GPUs from a process that asked for none."""
    variables = {"OMP_NUM_THREADS": str(max(1, int(settings.cpus_per_worker)))}
    return variables if settings.gpus_per_worker else variables | {"CUDA_VISIBLE_DEVICES": ""}


def last_line(error: Exception) -> str:
    """Where Ray says what happened."""
    return (str(error).strip().splitlines() or [""])[-1].strip()[:MESSAGE]
