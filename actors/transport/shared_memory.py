"""Weights through a shared-memory segment: trainer and worker on one node.

The trainer owns the segment and unlinks it. The worker only maps it, read-only: Python's
own `SharedMemory` would also register it with this process's resource tracker, which
unlinks the trainer's segment when the worker exits.
"""

from __future__ import annotations

import _posixshmem
import mmap
import os
from typing import Any

import numpy as np

from actors.transport.bucket import BadBucket


def read_shared_memory(info: dict[str, Any]) -> np.ndarray:
    """A private copy of the bucket's bytes; the segment is no longer touched afterwards."""
    name = info.get("segment")
    if not name:
        raise BadBucket("weight bucket lacks segment, the name of its shared memory")
    try:
        descriptor = _posixshmem.shm_open("/" + name.lstrip("/"), os.O_RDONLY, mode=0)
    except FileNotFoundError:
        raise BadBucket(f"shared memory segment {name!r} does not exist on this node") from None
    try:
        size = os.fstat(descriptor).st_size
        if size < info["nbytes"]:
            raise BadBucket(f"shared memory segment {name!r} is truncated: {size} bytes of {info['nbytes']}")
        with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as mapped:
            return np.frombuffer(mapped, np.uint8, count=info["nbytes"]).copy()
    finally:
        os.close(descriptor)
