"""Weights by CUDA IPC handles, for ranks and engines that share the same cards: vLLM's own engine.

    every rank packs the whole weights, a buffer at a time, on its own card
    all ranks' handles, by the cards' UUIDs, go from rank 0 to every worker
    each worker reads the buffer of its own card

So every worker has to sit on the card of a rank; which one does not matter. The bytes never
leave the card.
"""

from __future__ import annotations

from collections.abc import Sequence

from vllm.distributed.weight_transfer.base import ParamMeta, TrainerInitInfo

from learners.transport.source import size_of


def ipc_init_info(rank: int, bucket_bytes: int, metas: Sequence[ParamMeta]) -> TrainerInitInfo:
    """vLLM refuses a tensor that is larger than its buffer; embeddings of large vocabularies often are."""
    from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

    largest = max(map(size_of, metas), default=0)
    return IPCTrainerInitInfo(packed=True, packed_buffer_size_bytes=max(bucket_bytes, largest), rank=rank)
