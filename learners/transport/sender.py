"""One weight sync from the trainer's side, on every rank.

vLLM's trainer engine is made at the first sync and kept. Workers may come and go between
syncs: most transports only greet the new ones, a broadcast meets again with all of them.
After a sync that failed the engine is thrown away, so that the next one starts clean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from ray.actor import ActorHandle
from vllm.distributed.weight_transfer.base import TrainerInitInfo, TrainerWeightTransferEngine
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from learners.model.load import adapter_config
from learners.settings import SyncSettings
from learners.transport.adapter import AdapterInitInfo
from learners.transport.broadcast import BroadcastInitInfo
from learners.transport.client import WeightSyncError, WorkerClient, WorkersLost, identity
from learners.transport.ipc import IpcInitInfo
from learners.transport.object_store import ObjectStoreInitInfo
from learners.transport.proved import Digest, ProvedWeights
from learners.transport.rendezvous import meeting_point
from learners.transport.shared_memory import SharedMemoryInitInfo

BROADCASTS = ("nccl", "gloo")


class WeightSender:
    def __init__(
        self,
        module: torch.nn.Module,
        transport: str,
        settings: SyncSettings,
        rank: int,
        ranks_per_worker: int = 1,
        digest: Digest | None = None,
    ):
        adapter = transport == "adapter"
        self.module, self.transport, self.rank = module, transport, rank
        self.bucket_bytes = settings.bucket_mib * 2**20
        whole = torch.iinfo(torch.int64).max
        self.source = ProvedWeights(module, adapter, whole if adapter else self.bucket_bytes, None if rank else digest)
        self.client = WorkerClient(settings.timeout_seconds, settings.silence_seconds, ranks_per_worker)
        self.engine: TrainerWeightTransferEngine | None = None
        self.met: list[str] = []  # identities of the workers that the engine was made for

    def send(self, workers: Sequence[ActorHandle], version: int) -> dict[str, int]:
        """Send the weights as `version`; all ranks call it, rank 0 talks to the workers and
        returns the digest of each tensor."""
        if not workers:
            raise WeightSyncError(f"weight sync {version}: there are no rollout workers")
        self.client.begin(workers, version)
        self.source.begin_pass()
        try:
            self._meet([identity(worker) for worker in workers])
            self.engine.send_weights()
        except Exception:
            try:
                self.close()  # first: workers may be waiting in a collective of their own
            finally:
                self.source.finish_pass()
            raise
        if self.client.lost:
            raise WorkersLost(f"weight sync {version}: {self.client.losses()}; the others have the weights")
        return self.source.digests()

    def _meet(self, workers: list[str]) -> None:
        if self.transport in BROADCASTS and workers != self.met:
            self.close()
        if self.engine is None:
            self.engine = WeightTransferTrainerFactory.trainer_init(
                self._init_info(), client=self.client, source=self.source
            )
        elif self.rank == 0 and self.transport not in (*BROADCASTS, "ipc"):  # which greets in step with the other ranks
            self.client.init_weight_transfer_engine({})
        self.met = workers

    def _init_info(self) -> TrainerInitInfo:
        common: dict[str, Any] = {"rank": self.rank, "bucket_bytes": self.bucket_bytes}
        if self.transport == "shared_memory":
            return SharedMemoryInitInfo(**common)
        if self.transport == "object_store":
            return ObjectStoreInitInfo(**common)
        if self.transport == "adapter":
            return AdapterInitInfo(rank=self.rank, peft_config=adapter_config(self.module))
        if self.transport == "ipc":
            return IpcInitInfo(timeout_seconds=self.client.timeout_seconds, **common)
        return BroadcastInitInfo(library=self.transport, address=meeting_point()[0], **common)

    def close(self) -> None:
        """Leave nothing behind: communicators, segments, and what workers were told."""
        if self.engine is not None:
            self.engine.shutdown()
        self.engine, self.met = None, []
        self.client.known.clear()
