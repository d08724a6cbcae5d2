"""One bucket of weights on the wire, and the checks that make a bad one a clear error.

A bucket is a run of bytes and a table of what lies where:

    names, dtype_names, shapes, offsets   one entry per tensor; offsets in bytes
    nbytes                                length of the whole run

A transport only says how the bytes arrive (`read_shared_memory`, `read_object_store`);
what they mean is decided here, so every transport refuses the same mistakes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8)
}
TABLE = ("names", "dtype_names", "shapes", "offsets")


class BadBucket(ValueError):
    """Weights arrived in a form that cannot be loaded."""


def tensors_of(info: dict[str, Any], payload: np.ndarray | torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """The named tensors in `payload`, as views of it: whoever keeps them copies them."""
    missing = [key for key in (*TABLE, "nbytes") if key not in info]
    if missing:
        raise BadBucket(f"weight bucket lacks {', '.join(missing)}")
    if len({len(info[key]) for key in TABLE}) > 1:
        lengths = ", ".join(f"{key} has {len(info[key])}" for key in TABLE)
        raise BadBucket(f"weight bucket's table is ragged: {lengths}")
    if isinstance(payload, np.ndarray):
        payload = torch.from_numpy(payload)
    if payload.dtype != torch.uint8 or payload.ndim != 1:
        raise BadBucket(f"weight bucket's payload is {payload.dtype} of {payload.ndim} dimensions, not a run of bytes")
    if len(payload) != info["nbytes"]:
        raise BadBucket(f"weight bucket is truncated: {len(payload)} bytes arrived, {info['nbytes']} were announced")
    named = []
    for name, dtype_name, shape, offset in zip(*(info[key] for key in TABLE), strict=True):
        if dtype_name not in DTYPES:
            raise BadBucket(f"weight {name}: unknown dtype {dtype_name!r}")
        dtype = DTYPES[dtype_name]
        size = math.prod(shape) * dtype.itemsize
        if offset < 0 or offset + size > len(payload):
            raise BadBucket(
                f"weight {name}: {dtype_name}{list(shape)} at byte {offset} needs {size} bytes, "
                f"but the bucket ends at {len(payload)}"
            )
        run = payload[offset : offset + size]
        if offset % dtype.itemsize:
            run = run.clone()  # a view in another dtype must start at a multiple of its size
        named.append((name, run.view(dtype).view(tuple(shape))))
    return named
