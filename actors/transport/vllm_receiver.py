"""The worker side of vLLM's weight-transfer interface for Parley's own transports.

vLLM's layerwise reload is what its NCCL and IPC engines use too: between its start and
its end the model's own loaders see checkpoint-format tensors, and the results are copied
into the tensors the model already runs on. A tied output head shares its weight with the
embedding, but on CPU it computes with a packed copy of its own that a reload does not
touch: it is packed again at the end. Experts are packed on CPU too, once when their kernel is
made and not by a reload: there it is made anew.

What a reload cannot know is whether the values are right, or whether a layer was left
out (it keeps its old weights). A watch beside each process's model reads back what it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload
from vllm.platforms import current_platform

from actors.transport.bucket import tensors_of
from actors.transport.object_store import read_object_store
from actors.transport.receipt import Fault
from actors.transport.shared_memory import read_shared_memory
from actors.transport.tally import Tally
from actors.transport.vllm_adapter import read_slots
from actors.transport.vllm_held import Held, Watch


@dataclass
class NoInitInfo(WeightTransferInitInfo):
    """There is nothing to agree on before the first bucket."""


@dataclass
class BucketInfo(WeightTransferUpdateInfo):
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]
    offsets: list[int]
    nbytes: int
    segment: str | None = None
    reference: list[Any] = field(default_factory=list)


class BucketEngine(WeightTransferEngine[NoInitInfo, BucketInfo]):
    """Loads buckets of checkpoint-format weights, read by the subclass's transport."""

    init_info_cls = NoInitInfo
    update_info_cls = BucketInfo
    read: Callable[[dict[str, Any]], np.ndarray]
    under_way = False

    def init_transfer_engine(self, init_info: NoInitInfo) -> None:
        pass

    def start_weight_update(self) -> None:
        """Layers that an update which broke off has begun to load would count its weights with
        the new ones, and be done too early: they are closed first."""
        if self.under_way:
            self.close_layers()
        initialize_layerwise_reload(self.model)
        experts = [layer for layer in self.model.modules() if isinstance(layer, RoutedExperts)]
        self.kernels = {layer: layer.quant_method.moe_kernel for layer in experts if current_platform.is_cpu()}
        for layer in self.kernels:
            layer.quant_method.moe_kernel = None
        self.under_way = True

    def receive_weights(self, update_info: BucketInfo) -> None:
        info = vars(update_info)
        self.model.load_weights([(name, tensor.to(self.device)) for name, tensor in tensors_of(info, self.read(info))])

    def close_layers(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        for layer, kernel in self.kernels.items():
            if layer.quant_method.moe_kernel is None:  # nothing was loaded into it
                layer.quant_method.moe_kernel = kernel
        self.under_way = False

    def finish_weight_update(self) -> None:
        self.close_layers()
        embeddings = [
            module
            for module in self.model.modules()
            if isinstance(module, VocabParallelEmbedding) and not isinstance(module, ParallelLMHead)
        ]
        for head in self.model.modules():
            if isinstance(head, ParallelLMHead) and any(head.weight is embedding.weight for embedding in embeddings):
                head.quant_method.process_weights_after_loading(head)

    def shutdown(self) -> None:
        pass


class SharedMemoryEngine(BucketEngine):
    read = staticmethod(read_shared_memory)


class ObjectStoreEngine(BucketEngine):
    read = staticmethod(read_object_store)


for name, engine in (("shared_memory", SharedMemoryEngine), ("object_store", ObjectStoreEngine)):
    WeightTransferEngineFactory.register_engine(name, engine)
for name, engine in (("broadcast", "BroadcastEngine"), ("same_memory", "SameMemoryEngine")):
    WeightTransferEngineFactory.register_engine(name, "actors.transport.vllm_direct", engine)


class KnowsTransports:
    """vLLM imports its worker extension in every process of an engine, and with it this
    module: that is what makes the transports known there. Its methods become the worker's."""

    def drop_weight_update(self) -> None:
        """After an update that broke off: vLLM refuses to start one while another is active."""
        self._weight_update_active = False

    def watch_weights(self) -> None:
        """Before `start_weight_update`: a reload takes apart what shares one weight."""
        if not hasattr(self, "weight_watch"):
            self.weight_watch = Watch(self.weight_transfer_engine.model)

    def note_weights(self) -> None:
        """After `start_weight_update`."""
        self.weight_watch.begin()

    def held_weights(self) -> Held:
        """After `finish_weight_update`."""
        return self.weight_watch.end()

    def held_adapter(self, lora_id: int, tensors: dict[str, Any], scale: float) -> list[Fault]:
        """After the adapter was loaded."""
        if not hasattr(self, "adapter_places"):
            self.adapter_places = Tally()
        self.adapter_places.begin()
        manager = self.model_runner.lora_manager._adapter_manager
        faults = read_slots(manager, lora_id, tensors, scale, self.adapter_places)
        return faults + self.adapter_places.faults()
