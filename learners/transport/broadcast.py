"""Weights by broadcast from rank 0 to every process of every engine: NCCL between GPUs, gloo between CPUs.

One circle spans the sender and all engine processes, so a change in the set of workers means a
new one. A bucket's table goes over the control plane, and while its bytes are on their way the
sender watches the workers: one that dies, fails or falls silent ends the circle for all, and
the sync with it. What the others have received until then is no version: they make no token
before a whole update has reached them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from vllm.distributed.weight_transfer.base import VLLMWeightSyncClient, WeightSource
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from actors.wire.circle import OVER, Circle, CircleBroken, host_store
from learners.transport.bucket import Bucket, BucketEngine, BucketInitInfo
from learners.transport.client import Calls, WeightSyncError, WorkerClient

SETTLE_SECONDS = 5.0  # for the workers to answer once they were told that it is over


@dataclass
class BroadcastInitInfo(BucketInitInfo):
    backend: ClassVar[str] = "broadcast"
    library: str
    address: str  # of the sender's node


class BroadcastTrainerEngine(BucketEngine):
    client: WorkerClient
    calls: Calls | None = None  # not answered yet
    circle: Circle | None = None
    store: Any = None

    @classmethod
    def trainer_init(
        cls, init_info: BroadcastInitInfo, *, client: VLLMWeightSyncClient, source: WeightSource | None = None
    ) -> Self:
        engine = cls(client=client, source=source, is_sender=init_info.is_sender)
        engine.bucket_bytes = init_info.bucket_bytes
        if engine.is_sender:
            try:
                engine._meet(init_info.library, init_info.address)
            except BaseException as error:
                engine._give_up(error)
                raise
        return engine

    def _meet(self, library: str, address: str) -> None:
        client = self.client
        seconds = client.timeout_seconds
        self.store = host_store(address, seconds)
        places = {place: 1 + place * client.ranks_per_worker for place in range(len(client.workers))}
        size = 1 + len(places) * client.ranks_per_worker
        common = {"library": library, "address": address, "port": self.store.port, "size": size, "seconds": seconds}
        self.calls = client.post_each(
            "init_weight_transfer_engine",
            {place: ({**common, "rank_offset": first},) for place, first in places.items()},
        )
        self.circle = Circle(library, self.store.clone(), 0, size, seconds, self._all_there)
        self._answered()

    def ship(self, bucket: Bucket) -> None:
        run = torch.empty(bucket.table["nbytes"], dtype=torch.uint8, device=self.circle.device)
        bucket.write(run)
        self._answered()  # engines load one bucket while the next is gathered
        self.calls = self.client.post("update_weights", bucket.table)
        self.circle.broadcast(run)

    def landed(self) -> None:
        self._answered()

    def _answered(self) -> None:
        if self.calls is not None:
            self.client.collect(self.calls)
            self._all_there()
            self.calls = None

    def _all_there(self) -> None:
        if self.calls is not None:
            self.client.look(self.calls)
        if self.client.lost:
            raise CircleBroken(self.client.losses())

    def send_weights(self) -> None:
        try:
            super().send_weights()
        except BaseException as error:
            if self.is_sender:
                self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Tell the workers, and hear which of them are still there."""
        calls, self.calls = self.calls, None
        self.end(f"{type(error).__name__}: {error}")
        if calls is not None:
            self.client.settle(calls, SETTLE_SECONDS)
        self.store = None
        if self.client.lost:
            raise WeightSyncError(f"weight sync {self.client.version}: {self.client.losses()}") from error

    def end(self, reason: str) -> None:
        if self.store is not None:
            self.store.set(OVER, reason)
        if self.circle is not None:
            self.circle.leave()
            self.circle = None

    def release(self) -> None:
        """A bucket is gone when it was sent; the circle stays for the next sync."""

    def shutdown(self) -> None:
        self.end("the sender has closed")
        self.store = None

    def place(self, bucket: Bucket) -> dict[str, Any]:
        raise NotImplementedError("a broadcast has no place: see ship")


WeightTransferTrainerFactory.register_engine("broadcast", BroadcastTrainerEngine)
