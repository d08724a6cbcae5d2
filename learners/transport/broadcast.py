"""Weights by broadcast from rank 0 to every process of every engine: NCCL between GPUs, gloo between CPUs.

One circle spans the sender and all engine processes, so a change in the set of workers means a
new one. A bucket's table goes over the control plane, and while its bytes are on their way the
sender watches the workers: one that dies, fails or falls silent ends the circle for all, and
the sync with it. What the others have received until then is no version: they make no token
before a whole update has reached them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.distributed import TCPStore
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from actors.wire.circle import OVER, Circle, CircleBroken, host_store
from learners.transport.bucket import Bucket, BucketEngine, BucketInitInfo
from learners.transport.client import Calls, WeightSyncError, WorkerClient, WorkersLost

BLAME_SECONDS = 5.0  # for the workers to answer once they were told that it is over


@dataclass
class BroadcastInitInfo(BucketInitInfo):
    backend: ClassVar[str] = "broadcast"
    library: str
    address: str  # of the sender's node


class BroadcastTrainerEngine(BucketEngine):
    client: WorkerClient
    calls: Calls | None = None  # not answered yet
    circle: Circle | None = None
    store: TCPStore | None = None

    def meet(self, init_info: BroadcastInitInfo) -> None:
        if self.is_sender:
            try:
                self._join(init_info.library, init_info.address)
            except BaseException as error:
                self._give_up(error)
                raise

    def _join(self, library: str, address: str) -> None:
        client = self.client
        seconds = client.timeout_seconds
        self.store = host_store(address, seconds)
        places = {place: 1 + place * client.ranks_per_worker for place in range(len(client.workers))}
        size = 1 + len(places) * client.ranks_per_worker
        info = {"library": library, "address": address, "port": self.store.port, "size": size}
        info |= {"seconds": seconds, "silence": client.silence_seconds}
        self.calls = client.post_each(
            "init_weight_transfer_engine", {place: (info | {"rank_offset": first},) for place, first in places.items()}
        )
        self.circle = Circle(library, self.store.clone(), 0, size, seconds, self._all_there)
        self._answered()

    def ship(self, bucket: Bucket) -> None:
        if not self.is_sender:
            return
        run = torch.empty(bucket.table["nbytes"], dtype=torch.uint8, device=self.circle.device)
        bucket.write(run)
        self._answered()  # engines load one bucket while the next is gathered
        self.calls = self.client.post("update_weights", bucket.table)
        self.circle.broadcast(run)

    def finish(self) -> None:
        self._answered()
        super().finish()

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
        """Tell the workers, and hear who of them is the cause."""
        calls, self.calls = self.calls, None
        self.end(f"{type(error).__name__}: {error}")
        blamed = self.client.blame(calls, BLAME_SECONDS) if calls and calls.pending else self.client.losses()
        self.store = None
        if self.client.lost:
            raise WorkersLost(f"weight sync {self.client.version}: {blamed}") from error
        if isinstance(error, CircleBroken):
            why = "; ".join(filter(None, [str(error), blamed]))
            raise WeightSyncError(f"weight sync {self.client.version}: {why}") from error

    def end(self, reason: str) -> None:
        if self.store is not None:
            self.store.set(OVER, reason)
        if self.circle is not None:
            self.circle.leave()
            self.circle = None

    def shutdown(self) -> None:
        self.end("the sender has closed")
        self.store = None


WeightTransferTrainerFactory.register_engine("broadcast", BroadcastTrainerEngine)
