"""Weights in the memory of the card that this process shares with a learner rank.

The ranks' handles come with every bucket, and this process opens the one of its own card. A
mapping is kept from bucket to bucket and dropped after the update: torch counts one opening
for each export. The bytes are copied out, for the rank writes its next bucket in their place.
"""

from __future__ import annotations

from typing import Any

import torch

from actors.transport.bucket import BadBucket
from actors.transport.shared_memory import read_shared_memory


class SameMemoryReceiver:
    def __init__(self, device: torch.device):
        self.device = device
        self.opened: tuple[tuple, torch.Tensor] | None = None  # handle, the rank's buffer

    def meet(self, info: dict[str, Any], process: int = 0) -> None:
        if info:
            raise ValueError(f"this transfer needs nothing to start, but got {sorted(info)}")

    def read(self, info: dict[str, Any]) -> torch.Tensor:
        on_card = self.device.type == "cuda"
        card = str(torch.cuda.get_device_properties(self.device).uuid) if on_card else "cpu"
        handle = info["handles"].get(card)
        if handle is None:
            raise BadBucket(
                f"no learner rank is on card {card} of this engine, only on {', '.join(sorted(info['handles']))}: "
                "learner.sync.transport=ipc needs rank and worker on the same card"
            )
        if not on_card:
            return torch.from_numpy(read_shared_memory({"segment": handle, "nbytes": info["nbytes"]}))
        copied = self._open(handle)[: info["nbytes"]].clone()
        torch.cuda.synchronize(self.device)  # the rank writes its next bucket once it has this answer
        return copied

    def _open(self, handle: tuple) -> torch.Tensor:
        from torch.multiprocessing.reductions import rebuild_cuda_tensor

        if self.opened is None or self.opened[0] != handle:
            here = list(handle)
            here[6] = self.device.index  # the card's number in this process
            self.opened = handle, rebuild_cuda_tensor(*here)
        return self.opened[1]

    def finish(self) -> None:
        self.opened = None

    def leave(self) -> None:
        self.opened = None
