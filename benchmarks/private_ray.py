"""A Ray cluster of one benchmark alone, on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OBJECTS = 2**28  # bytes for what is passed between processes


@contextmanager
def private_ray(cpus: int | None = None, objects: int = OBJECTS) -> Iterator[None]:
    """`cpus`: None for all there are. Ray hides no GPU from an actor that asks for none, as in a run."""
    import ray

    os.environ["PATH"] = (
        f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # ninja, for kernels of vLLM
    )
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=cpus, object_store_memory=objects, **quiet)
    try:
        yield
    finally:
        ray.shutdown()
