"""A shaper's state as two files that anybody can read: state.json and arrays.npz.

Arrays anywhere in the state stand in the JSON as {"array": NAME}. Nothing is pickled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

STATE, ARRAYS, MARK = "state.json", "arrays.npz", "array"


def write_state(folder: Path, state: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    plain = _without_arrays(state, arrays)
    (folder / STATE).write_text(json.dumps(plain, allow_nan=False))
    np.savez(folder / ARRAYS, **arrays)


def read_state(folder: Path) -> dict[str, Any]:
    with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
        return _with_arrays(json.loads((folder / STATE).read_text()), arrays)


def _without_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            raise TypeError("an array of objects cannot be kept without pickling it")
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {MARK: name}
    if isinstance(value, dict):
        if set(value) == {MARK}:
            raise TypeError(f"a state may not hold a dict whose only key is {MARK!r}")
        if any(not isinstance(key, str) for key in value):
            raise TypeError(f"keys of a state are text, not {next(k for k in value if not isinstance(k, str))!r}")
        return {key: _without_arrays(each, arrays) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(each, arrays) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _with_arrays(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        return arrays[value[MARK]] if set(value) == {MARK} else {k: _with_arrays(v, arrays) for k, v in value.items()}
    return [_with_arrays(each, arrays) for each in value] if isinstance(value, list) else value
