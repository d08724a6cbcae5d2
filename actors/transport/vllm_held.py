"""What a vLLM process holds of the weights it was sent, whichever transport brought them.

Every transport hands checkpoint tensors to the model's own `load_weights`. That is where they
are seen arriving; each then goes through the loaders of vLLM's layers, which cut out a rank's
share and put it at its place in a fused tensor. A loader is only a copy, so the copies that it
makes say which bytes belong where: the layout is not worked out a second time here.

    load_weights    digest of each tensor as it arrived, by name
    a layer's copy  digest of what is copied, and where to: the place
    before packing  digest of every place of the layer, read back from its tensors
    after packing   digest of what the layer's kernels get, where they get tensors
    at the end      layers without packing are read back; the others' tensors once more

A reload copies a finished layer into the tensors that the model runs on, so the last line is
what is computed with. On CPU vLLM packs linear weights into memory of its kernels that nobody can
read; there the packing of every layer, the tied head's too, has to have seen the places.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
from vllm.model_executor.model_loader.reload.utils import get_tensor_load_numel

from actors.transport.digest import digest, numbers_of
from actors.transport.receipt import Fault
from actors.transport.tally import Tally

Home = tuple[str, str]  # a module's name and its parameter's; the first one of those that share it


class Kept(NamedTuple):
    """Digests of a parameter that the kernels packed."""

    home: Home
    ready: torch.Tensor  # of what they got
    now: torch.Tensor


@dataclass(frozen=True, slots=True)
class Part:
    """A run of one parameter that belongs to one arrived tensor."""

    tensor: str = field(compare=False)
    home: Home
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # from the parameter's first element

    def place(self, key: Home) -> str:
        return f"{'.'.join(key)}[{self.offset}]"

    def of(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """The run in `parameter`; None if it is too small to hold it, as packed weights leave it."""
        last = sum((count - 1) * step for count, step in zip(self.size, self.stride, strict=True))
        first = parameter.storage_offset() + self.offset
        if parameter.untyped_storage().nbytes() // parameter.element_size() <= first + last:
            return None
        return parameter.detach().as_strided(self.size, self.stride, first)


@dataclass(frozen=True, slots=True)
class Held:
    """Of one process: `loaded` counts the elements of each tensor that it took, over all places."""

    arrived: dict[str, int]
    sizes: dict[str, int]  # elements of each tensor as it arrived
    loaded: dict[str, int]
    faults: list[Fault]


class Copies(TorchDispatchMode):
    """Tells `seen` of every copy into a tensor's memory."""

    def __init__(self, target: torch.Tensor, seen: Any):
        super().__init__()
        self.target, self.seen = target.untyped_storage()._cdata, seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        copies = func in (torch.ops.aten.copy_.default, torch.ops.aten.fill_.Scalar, torch.ops.aten.fill_.Tensor)
        if copies and args[0].untyped_storage()._cdata == self.target:
            self.seen(args[0], args[1])
        return func(*args, **(kwargs or {}))


class Watch:
    """Stands beside one process's model for good; `begin` and `end` enclose an update. Made while
    the model is whole."""

    def __init__(self, model: torch.nn.Module):
        self.model = model
        self.names = {id(layer): name for name, layer in model.named_modules()}
        self.homes: dict[Home, Home] = {}
        first: dict[int, Home] = {}
        for name, layer in model.named_modules():
            for own, parameter in layer._parameters.items():
                if parameter is not None:
                    self.homes[name, own] = first.setdefault(id(parameter), (name, own))
        self.places = Tally()
        self.begun = False
        self.load = model.load_weights
        model.load_weights = self._load_weights
        methods = {id(method): method for layer in model.modules() if (method := method_of(layer)) is not None}
        for method in methods.values():
            method.process_weights_after_loading = self._packing(method.process_weights_after_loading)

    def begin(self) -> None:
        """Right after the reload has begun: every loader is vLLM's layerwise one now."""
        self.places.begin()
        self.now = ""  # the tensor that arrived last
        self.here: dict[str, torch.Tensor] = {}  # the tensors of the present call
        self.sizes: dict[str, int] = {}
        self.parts: dict[Home, dict[Part, None]] = {}
        self.filled: dict[Home, set[tuple[int, int]]] = {}  # padding: offset and elements
        self.needed: dict[Home, int] = {}  # elements that loaders have to write
        self.packed: dict[int, torch.nn.Module] = {}
        self.ready: dict[Home, torch.Tensor] = {}  # digests of what the kernels got
        self.begun = True
        for name, layer in self.model.named_modules():
            for own, parameter in layer._parameters.items():
                loader = getattr(parameter, "weight_loader", None)
                if loader is None:
                    continue
                self.needed[name, own] = get_tensor_load_numel(parameter)
                if getattr(loader, "watch", None) is not self:
                    parameter.weight_loader = self._loading(layer, own, loader)

    def end(self) -> Held:
        """What is held, after the reload has ended."""
        self.begun = False
        faults = self._incomplete()
        kept: list[Kept] = []
        for name, layer in self.model.named_modules():
            packed = id(layer) in self.packed
            for own, parameter in layer._parameters.items():
                home = self.homes.get((name, own))
                if parameter is None or not self.parts.get(home):
                    continue
                if not packed and hasattr(layer, "cpu_linear"):
                    what = f"is stale: {name} computes with an older packed copy of it"
                    faults += [Fault(tensor, what) for tensor in dict.fromkeys(p.tensor for p in self.parts[home])]
                elif not packed:
                    self._read_back((name, own), parameter)
                elif (name, own) in self.ready:
                    kept.append(Kept((name, own), self.ready[name, own], digest(parameter)))
        ready, now = numbers_of(each.ready for each in kept), numbers_of(each.now for each in kept)
        for each, before, after in zip(kept, ready, now, strict=True):
            if before != after:
                what = f"is not what the kernels run on: {'.'.join(each.home)} was not taken over"
                parts = self.parts[self.homes[each.home]]
                faults += [Fault(tensor, what) for tensor in dict.fromkeys(part.tensor for part in parts)]
        loaded = dict.fromkeys(self.sizes, 0)
        for parts in self.parts.values():
            for part in parts:
                loaded[part.tensor] += torch.Size(part.size).numel()
        return Held(self.places.arrived_numbers(), self.sizes, loaded, faults + self.places.faults())

    def _incomplete(self) -> list[Fault]:
        """Parameters that the update did not reach, or only a part of them."""
        faults = []
        for key, needed in self.needed.items():
            home = self.homes.get(key, key)
            if home != key and key not in self.parts:
                continue  # shared, and loaded under the other name
            parts = self.parts.get(key, {})
            written = sum(torch.Size(part.size).numel() for part in parts)
            padding = sum(count for _, count in self.filled.get(key, ()))
            written += padding
            if not parts and not padding and needed:
                faults.append(Fault(".".join(key), "was left out: it keeps its old values"))
            elif written < needed:
                whose = ", ".join(dict.fromkeys(part.tensor for part in parts))
                faults.append(Fault(".".join(key), f"is incomplete: of {needed} elements {whose} gave {written}"))
        return faults

    def _load_weights(self, weights: Iterable[tuple[str, torch.Tensor]], *others: Any, **named: Any) -> Any:
        if not self.begun:
            return self.load(weights, *others, **named)
        self.here = {}
        try:
            return self.load(self._arriving(weights), *others, **named)
        finally:
            self.here = {}

    def _arriving(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in weights:
            self.places.arrives(name, tensor)
            self.sizes[name] = tensor.numel()
            self.now = name
            self.here[name] = tensor
            yield name, tensor

    def _loading(self, layer: torch.nn.Module, own: str, loader: Any) -> Any:
        key = self.names[id(layer)], own

        @functools.wraps(loader)  # vLLM finds its own loader through __wrapped__, by its name
        def watched(*arguments: Any, **named: Any) -> Any:
            parameter = layer._parameters.get(own)
            if parameter is None or not self.begun:
                return loader(*arguments, **named)
            with Copies(parameter, functools.partial(self._copied, key, parameter.storage_offset())):
                return loader(*arguments, **named)

        watched.watch = self
        return watched

    def _copied(self, key: Home, start: int, target: torch.Tensor, source: torch.Tensor | float) -> None:
        if not target.numel():
            return  # a rank's share of a short vocabulary may be nothing but padding
        name, offset = self._origin(source), target.storage_offset() - start
        whole = self.here[name]
        if not isinstance(source, torch.Tensor) or source.numel() != target.numel():
            if whole.numel() != 1:
                self.filled.setdefault(key, set()).add((offset, target.numel()))
                return
            source = whole.reshape(target.shape)  # a single number is filled in
        home = self.homes.get(key, key)
        part = Part(name, home, tuple(target.shape), tuple(target.stride()), offset)
        parts = self.parts.setdefault(home, {})
        if part in parts:
            return  # vLLM loads once to count and once to keep; biases are there both times
        parts[part] = None
        self.places.expect(name, part.place(home), source, whole, target.dtype)

    def _origin(self, source: torch.Tensor | float) -> str:
        """Whose values these are: a part of the tensor that a model asked for last, or of an earlier
        one if it asked for several first."""
        if isinstance(source, torch.Tensor):
            for name in (self.now, *self.here):
                first = self.here[name].data_ptr()
                if first <= source.data_ptr() < first + self.here[name].nbytes:
                    return name
        return self.now

    def _packing(self, process: Any) -> Any:
        @functools.wraps(process)
        def watched(layer: torch.nn.Module) -> None:
            name = self.names.get(id(layer))
            if not self.begun or name is None:
                return process(layer)
            for own, parameter in layer._parameters.items():
                if parameter is not None:
                    self._read_back((name, own), parameter)
            process(layer)
            self.packed[id(layer)] = layer
            for own, parameter in layer._parameters.items():
                if parameter is not None and parameter.numel():
                    self.ready[name, own] = digest(parameter)

        return watched

    def _read_back(self, key: Home, parameter: torch.Tensor) -> None:
        home = self.homes.get(key, key)
        for part in self.parts.get(home, ()):
            held = part.of(parameter)
            if held is not None:
                self.places.find(part.tensor, part.place(key), held, None if key == home else part.place(home))


def method_of(layer: torch.nn.Module) -> QuantizeMethodBase | None:
    method = getattr(layer, "quant_method", None)
    return method if isinstance(method, QuantizeMethodBase) else None


def together(ranks: list[Held]) -> tuple[dict[str, int], list[Fault]]:
    """One engine's processes as one. Together they have to have taken every tensor whole, once or,
    where each of them or some of them keep a copy, several times."""
    arrived, faults = ranks[0].arrived, []
    for number, held in enumerate(ranks):
        where = f" (process {number})" if len(ranks) > 1 else ""
        faults += [Fault(fault.tensor, fault.what + where) for fault in held.faults]
        faults += [
            Fault(name, f"arrived with other values than in process 0{where}")
            for name, number_of in held.arrived.items()
            if arrived.get(name) != number_of
        ]
    for name, size in ranks[0].sizes.items():
        loaded = sum(held.loaded.get(name, 0) for held in ranks)
        if size and (not loaded or loaded % size):
            faults.append(Fault(name, f"was loaded in part: {loaded} of its {size} elements" if loaded else NOT_LOADED))
    return arrived, faults


NOT_LOADED = "arrived, but no layer of the engine took it"
