"""vLLM's side of a broadcast, in each process of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo

from actors.transport.broadcast import BroadcastReceiver
from actors.transport.vllm_receiver import BucketEngine


@dataclass
class CircleInfo(WeightTransferInitInfo):
    library: str
    address: str
    port: int
    size: int
    seconds: float
    rank_offset: int  # the place of this engine's first process


class BroadcastEngine(BucketEngine):
    init_info_cls = CircleInfo

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.receiver = BroadcastReceiver()

    def init_transfer_engine(self, init_info: CircleInfo) -> None:
        fields = dict(vars(init_info))
        self.receiver.join(fields.pop("rank_offset") + self.parallel_config.rank, **fields)

    def read(self, info: dict[str, Any]) -> torch.Tensor:
        return self.receiver.receive(info["nbytes"])

    def shutdown(self) -> None:
        self.receiver.leave()
