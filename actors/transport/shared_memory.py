"""Weights through a segment of shared memory: trainer and worker on one node.

The trainer owns the segment, which is a file without a path (`learners/transport/segment.py`). A worker opens it where
the system shows the trainer's open files, and only reads it.
"""

from __future__ import annotations

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
    descriptor = opened(name)
    try:
        size = os.fstat(descriptor).st_size
        if size < info["nbytes"]:
            raise BadBucket(f"shared memory segment {name!r} is truncated: {size} bytes of {info['nbytes']}")
        with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as mapped:
            return np.frombuffer(mapped, np.uint8, count=info["nbytes"]).copy()
    finally:
        os.close(descriptor)


def opened(name: str) -> int:
    """A descriptor of the segment. That of the trainer may belong to something else by now, which has another inode."""
    try:
        process, number, inode = map(int, name.split("/"))
        descriptor = os.open(f"/proc/{process}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK)
    except PermissionError:
        raise BadBucket(
            f"shared memory segment {name!r} may not be opened: learner and worker have to be of one user; or set "
            "learner.sync.transport=object_store"
        ) from None
    except (ValueError, OSError):
        raise BadBucket(f"shared memory segment {name!r} does not exist on this node") from None
    if os.fstat(descriptor).st_ino != inode:
        os.close(descriptor)
        raise BadBucket(f"shared memory segment {name!r} does not exist on this node any more")
    return descriptor
