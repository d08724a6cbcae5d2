"""The trained weights with a digest of each, taken from the very tensors that are sent.

It is what every engine has to have received, whichever transport carried it. What a digest is
the engines' side defines; it is handed in, as learners import nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import torch

from learners.transport.source import ModuleWeights

Digest = Callable[[torch.Tensor], torch.Tensor]  # one whole number, on the tensor's device


class ProvedWeights(ModuleWeights):
    """Only the rank that sends is given a `digest`."""

    def __init__(self, module: torch.nn.Module, adapter: bool, bucket_bytes: int, digest: Digest | None):
        super().__init__(module, adapter, bucket_bytes)
        self.digest = digest
        self.found: dict[str, torch.Tensor] = {}

    def begin_pass(self) -> None:
        super().begin_pass()
        self.found = {}

    def _pass(self) -> Generator[tuple[str, torch.Tensor], None, None]:
        for name, tensor in super()._pass():
            if self.digest is not None:
                self.found[name] = self.digest(tensor)
            yield name, tensor

    def digests(self) -> dict[str, int]:
        numbers = torch.stack(list(self.found.values())).tolist() if self.found else []
        return dict(zip(self.found, numbers, strict=True))
