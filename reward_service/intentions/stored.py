"""Arrays in JSON: name, shape and bytes, little-endian. No pickle."""

from __future__ import annotations

import base64

import numpy as np


def packed(array: np.ndarray) -> dict:
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"dtype": plain.dtype.str, "shape": list(array.shape), "data": base64.b64encode(plain.tobytes()).decode()}


def unpacked(stored: dict) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(stored["data"]), np.dtype(stored["dtype"]))
    return flat.reshape(stored["shape"]).astype(flat.dtype.newbyteorder("="))
