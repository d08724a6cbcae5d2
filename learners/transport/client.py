"""The rollout workers' weight-sync methods, called on all of them at once under one time limit.

A worker that died, or gave no sign of life for `silence_seconds`, is left out of the rest of the
sync and remembered in `lost`: the others still get the whole update, so none is left between
two versions. Anything else that goes wrong in a worker ends the sync with a WeightSyncError
that names it.

    died      Ray says so, within a second
    silent    asked whether it is alive on another of its threads, and no answer
    failed    its answer is an error
    late      none of these, but the time limit of the sync is over
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray import ObjectRef
from ray.actor import ActorHandle
from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError

LOOK_SECONDS = 0.5  # how often workers that take their time are looked at


class WeightSyncError(RuntimeError):
    """Weights did not reach the rollout workers; the message says where and why."""


class WorkersLost(WeightSyncError):
    """Workers died or were silent, and nothing else went wrong."""


@dataclass(slots=True)
class Calls:
    """One method's calls that are not answered yet, each with the worker's place."""

    method: str
    pending: dict[ObjectRef, int]


class WorkerClient:
    """vLLM's VLLMWeightSyncClient over Ray actors. `init_weight_transfer_engine` reaches
    each worker once in its life; `ranks_per_worker` is the number of processes behind each."""

    def __init__(self, timeout_seconds: float, silence_seconds: float, ranks_per_worker: int = 1):
        self.timeout_seconds, self.silence_seconds = timeout_seconds, silence_seconds
        self.ranks_per_worker = ranks_per_worker
        self.workers: list[ActorHandle] = []
        self.version = 0
        self.deadline = 0.0
        self.lost: dict[int, str] = {}  # place -> how
        self.known: set[str] = set()
        self.heard: dict[int, float] = {}  # last sign of life
        self.pings: dict[ObjectRef, int] = {}

    def begin(self, workers: Sequence[ActorHandle], version: int) -> None:
        self.workers, self.version, self.lost, self.pings = list(workers), version, {}, {}
        self.deadline = time.monotonic() + self.timeout_seconds
        self.known &= {identity(worker) for worker in workers}

    def losses(self) -> str:
        return "; ".join(f"rollout worker {place} {how}" for place, how in sorted(self.lost.items()))

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        new = [place for place, worker in enumerate(self.workers) if identity(worker) not in self.known]
        self.collect(self.post_each("init_weight_transfer_engine", {place: (init_info,) for place in new}))
        self.known |= {identity(self.workers[place]) for place in new}

    def start_weight_update(self) -> None:
        self.collect(self.post("start_weight_update"))

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.collect(self.post("update_weights", update_info))

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self.collect(self.post("finish_weight_update", weight_version or str(self.version)))

    def post(self, method: str, *arguments: Any) -> Calls:
        """Call it on every worker that is not lost."""
        return self.post_each(
            method, {place: arguments for place in range(len(self.workers)) if place not in self.lost}
        )

    def post_each(self, method: str, arguments: dict[int, tuple]) -> Calls:
        self.heard |= dict.fromkeys(arguments, time.monotonic())
        return Calls(method, {getattr(self.workers[place], method).remote(*a): place for place, a in arguments.items()})

    def collect(self, calls: Calls) -> None:
        """Wait for all answers."""
        while calls.pending:
            self.look(calls, LOOK_SECONDS)

    def blame(self, calls: Calls, seconds: float) -> str:
        """Of a sync that has failed: who is to blame, as far as the workers can tell in that time."""
        ready, _ = ray.wait(list(calls.pending), num_returns=len(calls.pending), timeout=seconds)
        said = []
        for call in ready:
            try:
                self._take(calls, call)
            except WeightSyncError as error:
                if "CircleBroken" not in str(error):  # it was only told, as all were
                    said.append(str(error))
        late = [f"rollout worker {place} has not answered since" for place in calls.pending.values()]
        return self.losses() or "; ".join(said + late)

    def look(self, calls: Calls, seconds: float = 0.0) -> None:
        """Take the answers that come within so many seconds, and see to those that do not."""
        ready, _ = ray.wait(list(calls.pending), num_returns=len(calls.pending), timeout=seconds)
        for call in ready:
            self._take(calls, call)
        self._listen(calls)
        if calls.pending and time.monotonic() > self.deadline:
            raise WeightSyncError(
                f"{self._where(calls, min(calls.pending.values()))}: no answer within "
                f"learner.sync.timeout_seconds={self.timeout_seconds:g}"
            )

    def _take(self, calls: Calls, call: ObjectRef) -> None:
        place = calls.pending.pop(call)
        try:
            ray.get(call)
        except RayTaskError as error:
            cause = error.cause or error
            raise WeightSyncError(f"{self._where(calls, place)}: {type(cause).__name__}: {cause}") from error
        except (RayActorError, OutOfMemoryError):
            self.lost[place] = "died"

    def _listen(self, calls: Calls) -> None:
        """Ask the workers that are at work for long whether they are alive."""
        now = time.monotonic()
        answered, _ = ray.wait(list(self.pings), num_returns=len(self.pings), timeout=0.0) if self.pings else ([], [])
        for ping in answered:
            self.heard[self.pings.pop(ping)] = now  # an error too is a sign of life; the call itself will tell
        asked = set(self.pings.values())
        for call, place in list(calls.pending.items()):
            silent = now - self.heard[place]
            if silent > self.silence_seconds:
                self.lost[place] = f"gave no sign of life for learner.sync.silence_seconds={self.silence_seconds:g}"
                del calls.pending[call]
            elif silent > self.silence_seconds / 2 and place not in asked:
                self.pings[self.workers[place].alive.remote()] = place

    def _where(self, calls: Calls, place: int) -> str:
        return f"weight sync {self.version}, rollout worker {place}, {calls.method}"


def identity(worker: ActorHandle) -> str:
    return worker._actor_id.hex()
