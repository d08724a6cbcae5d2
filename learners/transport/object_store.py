"""Weights through Ray's object store: trainer and rollout workers on any nodes.

The reference travels inside a list, so Ray hands it over unresolved and each worker
fetches the bytes itself; Ray moves them between nodes once per node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import ray
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from learners.transport.bucket import Bucket, BucketInitInfo, PlacingEngine


@dataclass
class ObjectStoreInitInfo(BucketInitInfo):
    backend: ClassVar[str] = "object_store"


class ObjectStoreTrainerEngine(PlacingEngine):
    reference: ray.ObjectRef | None = None

    def place(self, bucket: Bucket) -> dict[str, Any]:
        run = np.zeros(bucket.table["nbytes"], np.uint8)
        bucket.write(run)
        self.reference = ray.put(run)
        return {"reference": [self.reference]}

    def release(self) -> None:
        self.reference = None


WeightTransferTrainerFactory.register_engine("object_store", ObjectStoreTrainerEngine)
