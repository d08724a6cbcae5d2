"""The trained weights with a digest of each, taken from the very tensors that are sent.

It is what every engine has to have received, whichever transport carried it. Only the rank
that sends keeps them.
"""

from __future__ import annotations

from collections.abc import Generator

import torch

from learners.transport.source import ModuleWeights
from weights.digest import digest, numbers_of


class ProvedWeights(ModuleWeights):
    def __init__(self, module: torch.nn.Module, adapter: bool, bucket_bytes: int, *, sends: bool):
        super().__init__(module, adapter, bucket_bytes)
        self.sends = sends
        self.found: dict[str, torch.Tensor] = {}

    def begin_pass(self) -> None:
        super().begin_pass()
        self.found = {}

    def _pass(self) -> Generator[tuple[str, torch.Tensor], None, None]:
        for name, tensor in super()._pass():
            if self.sends:
                self.found[name] = digest(tensor)
            yield name, tensor

    def digests(self) -> dict[str, int]:
        return dict(zip(self.found, numbers_of(self.found.values()), strict=True))
