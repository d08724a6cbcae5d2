"""Weights by CUDA IPC handles, for ranks and engines that share the same GPUs: vLLM's own
engine. Handles travel to the workers; the bytes never leave the GPU."""

from __future__ import annotations

from vllm.distributed.weight_transfer.base import TrainerInitInfo


def ipc_init_info(rank: int, bucket_bytes: int) -> TrainerInitInfo:
    from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

    return IPCTrainerInitInfo(packed=True, packed_buffer_size_bytes=bucket_bytes, rank=rank)
