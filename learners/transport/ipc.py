"""Weights in the memory of a card that a rank and an engine share: only a handle travels.

Every rank keeps one buffer on its own card and lays each bucket into it; rank 0 collects the
handles and hands all of them to the workers, each of which opens that of its own card. Before
a buffer is written again its reader must be done with it, so the ranks go in step:

    start    rank 0 talks to the workers     all learn how it went
    bucket   every rank fills its buffer     all learn whose failed
             rank 0 talks to the workers     all learn how it went
    finish   rank 0 talks to the workers     all learn how it went

They learn it over a side group whose time limit is the sync's. So when one of them fails, all
stop at the same place, within the time of a sync, and can send again.
On CPU the buffer is a shared memory segment, and the rest is the same.

For CUDA IPC torch counts one opening for each export, so a rank exports its buffer once in a sync, and an engine opens
it once and drops it when the update is finished. A sync that fails before it was opened keeps one buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Protocol

import torch
import torch.distributed as dist
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from learners.transport.bucket import Bucket, BucketEngine, BucketInitInfo
from learners.transport.client import WeightSyncError
from learners.transport.segment import Segment

GRACE_SECONDS = 5.0  # rank 0 finds a worker late before the others find rank 0 late


@dataclass
class IpcInitInfo(BucketInitInfo):
    backend: ClassVar[str] = "same_memory"
    timeout_seconds: float


class Buffer(Protocol):
    card: str  # the readers on this card
    handle: Any  # open it

    def fill(self, bucket: Bucket) -> None:
        """Returns when the bytes are there for another process."""

    def close(self) -> None: ...


class CardBuffer:
    """Exported once and opened once by its reader in each sync: torch counts the pairs."""

    def __init__(self, nbytes: int):
        from torch.multiprocessing.reductions import reduce_tensor

        self.run = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        self.card = str(torch.cuda.get_device_properties(self.run.device).uuid)
        self.handle = reduce_tensor(self.run)[1]

    def fill(self, bucket: Bucket) -> None:
        bucket.write(self.run)
        torch.cuda.current_stream().synchronize()

    def close(self) -> None:
        self.run = None
        torch.cuda.ipc_collect()


class HostBuffer:
    card = "cpu"

    def __init__(self, nbytes: int):
        self.segment = Segment(nbytes)
        self.handle = self.segment.name

    def fill(self, bucket: Bucket) -> None:
        bucket.write(self.segment.bytes[: bucket.table["nbytes"]])

    def close(self) -> None:
        self.segment.close()


class IpcTrainerEngine(BucketEngine):
    group: dist.ProcessGroup | None = None  # None: there is one rank
    buffer: Buffer | None = None

    def meet(self, init_info: IpcInitInfo) -> None:
        """The workers are met at the start of each sync, in step with the other ranks."""
        if dist.is_initialized() and dist.get_world_size() > 1:
            limit = timedelta(seconds=init_info.timeout_seconds + GRACE_SECONDS)
            self.group = dist.new_group(backend="gloo", timeout=limit)

    def start(self) -> None:
        self._sender_does(lambda: self.client.init_weight_transfer_engine({}))
        self._sender_does(self.client.start_weight_update)

    def ship(self, bucket: Bucket) -> None:
        handles = dict(self._everyone(lambda: self._hold(bucket)))
        self._sender_does(lambda: self.client.update_weights(bucket.table | {"handles": handles}))

    def finish(self) -> None:
        self._sender_does(self.client.finish_weight_update)

    def _hold(self, bucket: Bucket) -> tuple[str, Any]:
        """This rank's card, and the handle of the buffer there that now has the bucket's bytes."""
        if self.buffer is None:
            largest = max(table["nbytes"] for _, table in self.tables())
            self.buffer = CardBuffer(largest) if bucket.tensors[0].is_cuda else HostBuffer(largest)
        self.buffer.fill(bucket)
        return self.buffer.card, self.buffer.handle

    def _everyone(self, action: Callable[[], Any]) -> list[Any]:
        """What it gives on every rank; an error on one is an error on all."""
        given, error = None, None
        try:
            given = action()
        except Exception as caught:
            error = caught
        outcomes = [(given, error and f"{type(error).__name__}: {error}")]
        if self.group is not None:
            outcomes *= dist.get_world_size(self.group)
            dist.all_gather_object(outcomes, outcomes[0], group=self.group)
        if error is not None:
            raise error
        for rank, (_, why) in enumerate(outcomes):
            if why:
                raise WeightSyncError(f"rank {rank} stopped the sync: {why}")
        return [given for given, _ in outcomes]

    def _sender_does(self, action: Callable[[], None]) -> None:
        self._everyone(action if self.is_sender else lambda: None)

    def release(self) -> None:
        if self.buffer is not None:
            self.buffer.close()
            self.buffer = None

    def shutdown(self) -> None:
        self.release()
        if self.group is not None:
            dist.destroy_process_group(self.group)
            self.group = None


WeightTransferTrainerFactory.register_engine("same_memory", IpcTrainerEngine)
