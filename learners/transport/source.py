"""The trained weights as vLLM wants them: named tensors in checkpoint form, gathered in lockstep.

Under ZeRO-3 each rank holds a slice of every parameter, and gathering is a collective:
all ranks iterate, in the same order. A sender that fails half-way owes the others the
rest of the pass (`finish_pass`), or they would meet its next collective in the middle of
this one. One bucket of parameters is whole at a time, so memory is bounded by the bucket.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource


def buckets(sizes: Iterable[int], limit: int) -> list[slice]:
    """Neighbours together while they fit; what is larger than the limit stands alone."""
    cuts, start, filled, count = [], 0, 0, 0
    for count, size in enumerate(sizes, 1):
        if filled and filled + size > limit:
            cuts.append(slice(start, count - 1))
            start, filled = count - 1, 0
        filled += size
    return cuts + [slice(start, count)] if count else []


class ModuleWeights(WeightSource):
    """All parameters of a module; with `adapter` only its LoRA matrices, under the names
    that PEFT gives them in an adapter file."""

    def __init__(self, module: torch.nn.Module, adapter: bool, bucket_bytes: int):
        self.parameters = [
            (name.replace(".default.", ".") if adapter else name, parameter)
            for name, parameter in module.named_parameters()
            if parameter.requires_grad or not adapter
        ]
        self.cuts = buckets([size_of(meta) for meta in self.metadata()], bucket_bytes)
        self.begun = 0  # buckets of the present pass that this rank has gathered
        self.running: Generator[tuple[str, torch.Tensor], None, None] | None = None

    def metadata(self) -> list[ParamMeta]:
        return [ParamMeta(name, p.dtype, tuple(getattr(p, "ds_shape", p.shape))) for name, p in self.parameters]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        self.running = self._pass()
        return self.running

    def _pass(self) -> Generator[tuple[str, torch.Tensor], None, None]:
        for number, cut in enumerate(self.cuts, 1):
            self.begun = number
            bucket = self.parameters[cut]
            with gathered([parameter for _, parameter in bucket]):
                for name, parameter in bucket:
                    yield name, parameter.detach()

    def begin_pass(self) -> None:
        self.begun = 0

    def finish_pass(self) -> None:
        """Run what is left of this pass's collectives: the other ranks are waiting in them."""
        if self.running is not None:
            self.running.close()
        for cut in self.cuts[self.begun :]:
            with gathered([parameter for _, parameter in self.parameters[cut]]):
                pass
        self.begun = len(self.cuts)


def size_of(meta: ParamMeta) -> int:
    """Bytes."""
    return meta.dtype.itemsize * torch.Size(meta.shape).numel()


def gathered(parameters: list[torch.nn.Parameter]) -> AbstractContextManager:
    """The parameters whole; a collective where ZeRO-3 has cut them up."""
    if not any(hasattr(parameter, "ds_id") for parameter in parameters):
        return nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(parameters)
