"""vLLM's side of the transports in which each process of an engine takes part itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo

from actors.transport.broadcast import BroadcastReceiver
from actors.transport.same_memory import SameMemoryReceiver
from actors.transport.vllm_receiver import BucketEngine, BucketInfo


@dataclass
class CircleInfo(WeightTransferInitInfo):
    library: str
    address: str
    port: int
    size: int
    seconds: float
    silence: float
    rank_offset: int  # the place of this engine's first process


class BroadcastEngine(BucketEngine):
    init_info_cls = CircleInfo

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.receiver = BroadcastReceiver()

    def init_transfer_engine(self, init_info: CircleInfo) -> None:
        self.receiver.meet(vars(init_info), self.parallel_config.rank)

    def read(self, info: dict[str, Any]) -> torch.Tensor:
        return self.receiver.read(info)

    def shutdown(self) -> None:
        self.receiver.leave()


@dataclass
class HandlesInfo(BucketInfo):
    handles: dict[str, Any] = field(default_factory=dict)


class SameMemoryEngine(BucketEngine):
    update_info_cls = HandlesInfo

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.receiver = SameMemoryReceiver(self.device)

    def read(self, info: dict[str, Any]) -> torch.Tensor:
        return self.receiver.read(info)

    def finish_weight_update(self) -> None:
        super().finish_weight_update()
        self.receiver.finish()

    def shutdown(self) -> None:
        self.receiver.leave()
