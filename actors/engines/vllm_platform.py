"""Where vLLM runs: its environment, the platform it was built for, and how much memory it may take."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from actors.settings import EngineSettings

log = logging.getLogger("parley.worker")
CPU_BLOCK = 32  # tokens; the smallest its kernels like: prefixes are cached by whole blocks, and games are short
WHOLE_CARD_SHARE = 0.85  # of a card that nobody else uses
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # the capacities vLLM offers
USUAL_LORA_RANK = 16  # of them, where none is asked for


def prepare_environment(compiles: bool = True, sockets: Path | None = None) -> None:
    """vLLM reads these when it is imported. Without `compiles` torch compiles no part of it, not even the small ones
    of its sampler, which `enforce_eager` leaves out; so no C++ compiler is needed. `sockets`: where those of its
    processes are, in place of the folder of temporary files; it leaves them behind."""
    if sockets is not None:
        os.environ["VLLM_RPC_BASE_PATH"] = str(sockets)
    if not compiles:
        from torch._dynamo import config

        config.disable = True
        os.environ["TORCH_COMPILE_DISABLE"] = "1"  # for the processes that vLLM starts
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # its warnings are the same thirty lines at every start
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # FlashInfer samples for requests with top-k or top-p, and none has them. With it vLLM needs the package to start.
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # workers share cores: the scheduler places them


def lora_capacity(rank: int) -> int:
    """The least that holds an adapter of this rank."""
    fitting = [each for each in LORA_RANKS if each >= rank]
    if not fitting:
        raise ValueError(f"learner.lora.rank={rank} is more than vLLM's largest, {LORA_RANKS[-1]}")
    return fitting[0]


def import_vllm(settings: EngineSettings, on_gpu: bool, sockets: Path | None = None) -> bool:
    """The part of a start that is imports. Returns whether nothing is to be compiled."""
    eager = not on_gpu if settings.enforce_eager is None else settings.enforce_eager
    prepare_environment(compiles=on_gpu or not eager, sockets=sockets)
    import vllm.v1.engine.llm_engine  # noqa: F401

    import actors.transport.vllm_receiver  # noqa: F401  (registers the transports)

    meet_in_memory()
    return eager


def meet_in_memory() -> None:
    """An engine of one process is a group of one, which meets in a file of the folder of temporary files, and a process
    that is killed leaves it behind. A file without a name goes with its process."""
    from vllm.v1.executor import uniproc_executor

    uniproc_executor.get_file_store_init_method = lambda: f"file:///proc/self/fd/{os.memfd_create('vllm_dist')}"


def look_at_class(model_path: str, trust_remote_code: bool) -> None:
    """vLLM has a process of its own say what a model's class can do. On a machine that has not seen the class, that
    takes as long as importing vLLM; afterwards it is in a file of vLLM's cache."""
    from transformers import AutoConfig
    from vllm.model_executor.models import ModelRegistry

    try:
        for name in AutoConfig.from_pretrained(model_path, trust_remote_code=trust_remote_code).architectures or ():
            if known := ModelRegistry.models.get(name):
                known.inspect_model_cls()
    except Exception:
        log.info("%s: its class is looked at when the engine starts", model_path, exc_info=True)


def ray_stat_loggers() -> list[Any]:
    from vllm.v1.metrics.ray_wrappers import RayPrometheusStatLogger

    return [RayPrometheusStatLogger]


def check_platform(on_gpu: bool) -> None:
    """vLLM's CPU and CUDA builds play on nothing else."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu() == on_gpu:
        planned, there = ("GPUs", "the CPU") if on_gpu else ("the CPU", "GPUs")
        raise ValueError(
            f"this engine was planned for {planned}, but the vLLM of this node plays on {there}: all nodes need the "
            "installation of the one that starts the run"
        )


def card_memory(settings: EngineSettings) -> dict[str, Any]:
    """vLLM starts only if its share of the card is free. A cache of a given size is then taken as it is: vLLM's
    own profile, which else finds the size, would count what others do on the card meanwhile."""
    arguments: dict[str, Any] = {"gpu_memory_utilization": settings.gpu_memory_share or WHOLE_CARD_SHARE}
    if settings.gpu_cache_gib is not None:
        arguments["kv_cache_memory_bytes"] = int(settings.gpu_cache_gib * 2**30)
    return arguments


def node_memory(settings: EngineSettings) -> dict[str, Any]:
    """On CPU."""
    return {"kv_cache_memory_bytes": int(settings.cpu_cache_gib * 2**30), "block_size": CPU_BLOCK}
