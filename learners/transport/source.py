"""The trained weights as vLLM wants them: named tensors in checkpoint form, gathered in lockstep.

Under ZeRO-3 each rank holds a slice of every parameter, and gathering is a collective:
all ranks iterate, in the same order. A sender that fails half-way owes the others the
rest of the pass (`finish_pass`), or they would meet its next collective in the middle of
this one. One bucket of parameters is whole at a time, so memory is bounded by the bucket, or
by the largest parameter.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource

from learners.model.checkpoint_form import checkpoint_forms, in_checkpoint


def buckets(sizes: Iterable[int], limit: int) -> list[slice]:
    """Neighbours together while they fit; what is larger than the limit stands alone."""
    cuts, start, filled, count = [], 0, 0, 0
    for count, size in enumerate(sizes, 1):
        if filled and filled + size > limit:
            cuts.append(slice(start, count - 1))
            start, filled = count - 1, 0
        filled += size
    return cuts + [slice(start, count)] if count else []


@dataclass(slots=True)
class Weight:
    """One parameter, and what a checkpoint has of it."""

    name: str
    parameter: torch.nn.Parameter
    parts: list[ParamMeta]

    @property
    def as_it_is(self) -> bool:
        return [part.name for part in self.parts] == [self.name]


class ModuleWeights(WeightSource):
    """All parameters of a module in checkpoint form; with `adapter` only its LoRA matrices,
    under the names that PEFT gives them in an adapter file."""

    def __init__(self, module: torch.nn.Module, adapter: bool, bucket_bytes: int):
        self.module = module
        named = {
            re.sub(r"\.default(?=\.|$)", "", name) if adapter else name: parameter
            for name, parameter in module.named_parameters()
            if parameter.requires_grad or not adapter
        }
        forms = checkpoint_forms(module, named)
        self.weights = [
            Weight(name, parameter, [ParamMeta(part, of.dtype, tuple(of.shape)) for part, of in forms[name].items()])
            for name, parameter in named.items()
        ]
        self.cuts = buckets([sum(map(size_of, weight.parts)) for weight in self.weights], bucket_bytes)
        self.begun = 0  # buckets of the present pass that this rank has gathered
        self.running: Generator[tuple[str, torch.Tensor], None, None] | None = None

    def metadata(self) -> list[ParamMeta]:
        return [part for weight in self.weights for part in weight.parts]

    def runs(self, limit: int) -> list[slice]:
        """Of what is yielded, at most `limit` bytes at a time where one tensor is not more. All
        tensors of a run come from one bucket, so they are whole when the last of them is yielded."""
        found, first = [], 0
        for cut in self.cuts:
            sizes = [size_of(part) for weight in self.weights[cut] for part in weight.parts]
            found += [slice(first + run.start, first + run.stop) for run in buckets(sizes, limit)]
            first += len(sizes)
        return found

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        self.running = self._pass()
        return self.running

    def _pass(self) -> Generator[tuple[str, torch.Tensor], None, None]:
        for number, cut in enumerate(self.cuts, 1):
            self.begun = number
            bucket = self.weights[cut]
            with gathered([weight.parameter for weight in bucket]):
                for weight in bucket:
                    tensor = weight.parameter.detach()
                    if weight.as_it_is:
                        yield weight.name, tensor
                    else:
                        yield from in_checkpoint(self.module, weight.name, tensor).items()

    def begin_pass(self) -> None:
        self.begun = 0

    def finish_pass(self) -> None:
        """Run what is left of this pass's collectives: the other ranks are waiting in them."""
        if self.running is not None:
            self.running.close()
        for cut in self.cuts[self.begun :]:
            with gathered([weight.parameter for weight in self.weights[cut]]):
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
