"""The rollout workers' weight-sync methods, called on all of them at once under one time limit.

A worker that died is left out of the rest of the sync and remembered in `lost`: the
others still get the whole update, so none is left between two versions. Anything else
that goes wrong in a worker ends the sync with a WeightSyncError that names it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError


class WeightSyncError(RuntimeError):
    """Weights did not reach the rollout workers; the message says where and why."""


class WorkerClient:
    """vLLM's VLLMWeightSyncClient over Ray actors. `init_weight_transfer_engine` reaches
    each worker once in its life; `ranks_per_worker` is the number of processes behind
    each, and every worker is told the place of its first one."""

    def __init__(self, timeout_seconds: float, ranks_per_worker: int = 1):
        self.timeout_seconds = timeout_seconds
        self.ranks_per_worker = ranks_per_worker
        self.workers: list[ActorHandle] = []
        self.version = 0
        self.deadline = 0.0
        self.lost: list[int] = []
        self.known: set[str] = set()

    def begin(self, workers: Sequence[ActorHandle], version: int) -> None:
        self.workers, self.version, self.lost = list(workers), version, []
        self.deadline = time.monotonic() + self.timeout_seconds
        self.known &= {identity(worker) for worker in workers}

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        calls = {}
        for place, worker in enumerate(self.workers):
            if identity(worker) not in self.known:
                info = dict(init_info)
                if "rank_offset" in info:
                    info["rank_offset"] += place * self.ranks_per_worker
                calls[place] = worker.init_weight_transfer_engine.remote(info)
        self._wait("init_weight_transfer_engine", calls)
        self.known |= {identity(self.workers[place]) for place in calls}

    def start_weight_update(self) -> None:
        self._all("start_weight_update")

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._all("update_weights", update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._all("finish_weight_update", weight_version or str(self.version))

    def _all(self, method: str, *arguments: Any) -> None:
        present = [place for place in range(len(self.workers)) if place not in self.lost]
        self._wait(method, {place: getattr(self.workers[place], method).remote(*arguments) for place in present})

    def _wait(self, method: str, calls: dict[int, ray.ObjectRef]) -> None:
        for place, call in calls.items():
            where = f"weight sync {self.version}, rollout worker {place}, {method}"
            try:
                ray.get(call, timeout=max(0.0, self.deadline - time.monotonic()))
            except GetTimeoutError:
                raise WeightSyncError(
                    f"{where}: no answer within learner.sync.timeout_seconds={self.timeout_seconds:g}"
                ) from None
            except RayTaskError as error:
                cause = error.cause or error
                raise WeightSyncError(f"{where}: {type(cause).__name__}: {cause}") from error
            except RayActorError:
                self.lost.append(place)


def identity(worker: ActorHandle) -> str:
    return worker._actor_id.hex()
