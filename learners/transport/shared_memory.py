"""Weights through shared memory: trainer and rollout workers on one node.

One segment for each bucket; the workers copy it out before they answer, so a segment is
unlinked when the next one is made, and the last one after the sync. At most one bucket
is in memory at a time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Any, ClassVar

import numpy as np
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from learners.transport.bucket import Bucket, BucketInitInfo, PlacingEngine
from learners.transport.client import WeightSyncError


@dataclass
class SharedMemoryInitInfo(BucketInitInfo):
    backend: ClassVar[str] = "shared_memory"


class SharedMemoryTrainerEngine(PlacingEngine):
    segment: SharedMemory | None = None

    def place(self, bucket: Bucket) -> dict[str, Any]:
        self.release()
        nbytes = bucket.table["nbytes"]
        room = os.statvfs("/dev/shm")
        if nbytes > room.f_bavail * room.f_frsize:  # writing past it would kill the process
            raise WeightSyncError(
                f"/dev/shm has {room.f_bavail * room.f_frsize >> 20} MiB left but a bucket of weights needs "
                f"{nbytes >> 20} MiB: lower learner.sync.bucket_mib or enlarge /dev/shm"
            )
        self.segment = SharedMemory(create=True, size=max(nbytes, 1))
        target = np.frombuffer(self.segment.buf, np.uint8, count=nbytes)
        bucket.write(target)
        del target  # a segment that is still viewed cannot be closed
        return {"segment": self.segment.name}

    def release(self) -> None:
        if self.segment is not None:
            self.segment.close()
            self.segment.unlink()
            self.segment = None


WeightTransferTrainerFactory.register_engine("shared_memory", SharedMemoryTrainerEngine)
