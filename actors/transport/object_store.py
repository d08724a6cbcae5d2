"""Weights through Ray's object store: trainer and worker on any nodes.

The reference travels inside a list, so Ray hands it over unresolved and the bytes are
fetched here, under a time limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from actors.transport.bucket import BadBucket

FETCH_SECONDS = 300.0


def read_object_store(info: dict[str, Any]) -> np.ndarray:
    """The bucket's bytes; a copy, because the store's own memory is read-only and shared."""
    import ray

    if len(info.get("reference") or ()) != 1:
        raise BadBucket("weight bucket lacks reference, a list of the one object that holds its bytes")
    (reference,) = info["reference"]
    try:
        payload = ray.get(reference, timeout=FETCH_SECONDS)
    except ray.exceptions.GetTimeoutError:
        raise BadBucket(f"weight bucket {reference.hex()} did not arrive within {FETCH_SECONDS:.0f} s") from None
    if not isinstance(payload, np.ndarray):
        raise BadBucket(f"weight bucket is a {type(payload).__name__}, not an array of bytes")
    return payload.copy()
