"""Weights through shared memory: trainer and rollout workers on one node.

One segment for each bucket; the workers copy it out before they answer, so a segment is
closed when the next one is made, and the last one after the sync. At most one bucket
is in memory at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from learners.transport.bucket import Bucket, BucketInitInfo, PlacingEngine
from learners.transport.segment import Segment


@dataclass
class SharedMemoryInitInfo(BucketInitInfo):
    backend: ClassVar[str] = "shared_memory"


class SharedMemoryTrainerEngine(PlacingEngine):
    segment: Segment | None = None

    def place(self, bucket: Bucket) -> dict[str, Any]:
        self.release()
        self.segment = Segment(bucket.table["nbytes"])
        bucket.write(self.segment.bytes)
        return {"segment": self.segment.name}

    def release(self) -> None:
        if self.segment is not None:
            self.segment.close()
            self.segment = None


WeightTransferTrainerFactory.register_engine("shared_memory", SharedMemoryTrainerEngine)
