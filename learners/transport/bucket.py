"""Named tensors as one run of bytes, and the trainer engine that sends such runs.

    {"names", "dtype_names", "shapes", "offsets", "nbytes"} + where the bytes are

Offsets are multiples of 64, so a receiver may view a tensor in place. A subclass only
says how the bytes travel.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
from vllm.distributed.weight_transfer.base import (
    ParamMeta,
    TrainerInitInfo,
    TrainerWeightTransferEngine,
    VLLMWeightSyncClient,
    WeightSource,
)

from learners.transport.source import ModuleWeights, size_of

ALIGNMENT = 64


@dataclass
class BucketInitInfo(TrainerInitInfo):
    backend: ClassVar[str] = "bucket"
    bucket_bytes: int


@dataclass(slots=True)
class Bucket:
    table: dict[str, Any]
    tensors: list[torch.Tensor]

    def write(self, target: np.ndarray | torch.Tensor) -> None:
        """Into a run of at least `nbytes` bytes."""
        target = torch.as_tensor(target)
        for offset, tensor in zip(self.table["offsets"], self.tensors, strict=True):
            flat = tensor.contiguous().reshape(-1).view(torch.uint8)
            target[offset : offset + flat.numel()].copy_(flat)


def layout(metas: list[ParamMeta]) -> dict[str, Any]:
    offsets, end = [], 0
    for meta in metas:
        offsets.append(end)
        end += -(-size_of(meta) // ALIGNMENT) * ALIGNMENT
    return {
        "names": [meta.name for meta in metas],
        "dtype_names": [str(meta.dtype).removeprefix("torch.") for meta in metas],
        "shapes": [list(meta.shape) for meta in metas],
        "offsets": offsets,
        "nbytes": end,
    }


class BucketEngine(TrainerWeightTransferEngine[BucketInitInfo]):
    """Sends the source run by run: all tensors of a run are whole when it is written."""

    init_info_cls = BucketInitInfo
    source: ModuleWeights
    bucket_bytes: int

    @classmethod
    def trainer_init(
        cls, init_info: BucketInitInfo, *, client: VLLMWeightSyncClient, source: WeightSource | None = None
    ) -> Self:
        if source is None:
            raise ValueError("sending weights needs a source of them")
        engine = cls(client=client, source=source, is_sender=init_info.is_sender)
        engine.bucket_bytes = init_info.bucket_bytes
        engine.meet(init_info)
        return engine

    def meet(self, init_info: BucketInitInfo) -> None:
        """Every rank and the workers get to know each other, once."""
        if self.is_sender:
            self.client.init_weight_transfer_engine({})

    def tables(self) -> list[tuple[slice, dict[str, Any]]]:
        """The buckets of a pass: which of the source's tensors, and how they lie."""
        metas = self.source.metadata()
        return [(cut, layout(metas[cut])) for cut in self.source.runs(self.bucket_bytes)]

    def send_weights(self) -> None:
        tensors = iter(self.source)
        self.start()
        for cut, table in self.tables():
            self.ship(Bucket(table, [tensor for _, tensor in islice(tensors, cut.stop - cut.start)]))
        if next(tensors, None) is not None:
            raise RuntimeError("the weight source yields more than its metadata declares")
        self.finish()
        self.release()

    # Every rank calls these; only rank 0, the sender, talks to the workers.

    def start(self) -> None:
        if self.is_sender:
            self.client.start_weight_update()

    @abstractmethod
    def ship(self, bucket: Bucket) -> None:
        """Bring the bucket to the workers."""

    def finish(self) -> None:
        if self.is_sender:
            self.client.finish_weight_update()

    def release(self) -> None:
        """Free what a bucket was laid in. Called after each sync, and when it failed."""

    def shutdown(self) -> None:
        self.release()


class PlacingEngine(BucketEngine):
    """Puts a bucket somewhere, and says where."""

    def ship(self, bucket: Bucket) -> None:
        if self.is_sender:
            self.client.update_weights(bucket.table | self.place(bucket))

    @abstractmethod
    def place(self, bucket: Bucket) -> dict[str, Any]:
        """Put the bucket's bytes where the workers find them; returns how they do."""
