"""Weights by NCCL broadcast from rank 0 to every process of every engine: vLLM's own engine.

One communicator spans the sender and all engine processes, so a change in the set of
workers means a new rendezvous, on a new port.
"""

from __future__ import annotations

from vllm.distributed.weight_transfer.base import TrainerInitInfo

from learners.transport.client import WorkerClient


def nccl_init_info(rank: int, client: WorkerClient, address: str, port: int, bucket_bytes: int) -> TrainerInitInfo:
    from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

    return NCCLTrainerInitInfo(
        master_address=address,
        master_port=port,
        world_size=1 + len(client.workers) * client.ranks_per_worker,
        packed_buffer_size_bytes=bucket_bytes,
        rank=rank,
    )
