"""LoRA: only the adapter travels, whole, in one object, with the configuration that PEFT
would write beside it. The base weights of the engines never change."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from vllm.distributed.weight_transfer.base import VLLMWeightSyncClient, WeightSource
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

from learners.transport.bucket import Bucket, BucketInitInfo
from learners.transport.object_store import ObjectStoreTrainerEngine


@dataclass
class AdapterInitInfo(BucketInitInfo):
    backend: ClassVar[str] = "adapter"
    bucket_bytes: int = sys.maxsize
    peft_config: dict[str, Any] = field(default_factory=dict)


class AdapterTrainerEngine(ObjectStoreTrainerEngine):
    peft_config: dict[str, Any]

    @classmethod
    def trainer_init(
        cls, init_info: AdapterInitInfo, *, client: VLLMWeightSyncClient, source: WeightSource | None = None
    ) -> Self:
        engine = super().trainer_init(init_info, client=client, source=source)
        engine.peft_config = init_info.peft_config
        return engine

    def place(self, bucket: Bucket) -> dict[str, Any]:
        return super().place(bucket) | {"peft_config": self.peft_config}


WeightTransferTrainerFactory.register_engine("adapter", AdapterTrainerEngine)
