"""A shaper's state as two files that anybody can read: state.json and arrays.npz.

Arrays anywhere in the state stand in the JSON as {"array": NAME}. Nothing is pickled.

Writing goes on beside other threads: JSON is made in small pieces, because the encoder keeps the
interpreter to itself for as long as it is at one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

STATE, ARRAYS, MARK = "state.json", "arrays.npz", "array"
PIECE = 16  # entries of a list that are encoded at once


def write_state(folder: Path, state: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / ARRAYS, **write_json(folder / STATE, state))


def read_state(folder: Path) -> dict[str, Any]:
    with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
        return _with_arrays(json.loads((folder / STATE).read_text(encoding="utf-8")), arrays)


def write_json(path: Path, value: Any) -> dict[str, np.ndarray]:
    """The arrays in it, by the names that stand for them."""
    arrays: dict[str, np.ndarray] = {}
    with path.open("w", encoding="utf-8") as file:
        for piece in _pieces(value, arrays):
            file.write(piece)
    return arrays


def _pieces(value: Any, arrays: dict[str, np.ndarray]) -> Iterator[str]:
    """JSON of it; the arrays in it are put into `arrays`."""
    if isinstance(value, dict):
        _check(value)
        yield "{"
        for number, (key, each) in enumerate(value.items()):
            yield f"{', ' if number else ''}{json.dumps(key)}: "
            yield from _pieces(each, arrays)
        yield "}"
    elif isinstance(value, (list, tuple)) and len(value) > PIECE:
        yield "["
        for start in range(0, len(value), PIECE):
            encoded = json.dumps(_without_arrays(value[start : start + PIECE], arrays), allow_nan=False)
            yield (", " if start else "") + encoded[1:-1]
        yield "]"
    elif isinstance(value, (list, tuple)):
        yield "["
        for number, each in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(each, arrays)
        yield "]"
    else:
        yield json.dumps(_without_arrays(value, arrays), allow_nan=False)


def _check(value: dict) -> None:
    if set(value) == {MARK}:
        raise TypeError(f"a state may not hold a dict whose only key is {MARK!r}")
    if any(not isinstance(key, str) for key in value):
        raise TypeError(f"keys of a state are text, not {next(k for k in value if not isinstance(k, str))!r}")


def _without_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            raise TypeError("an array of objects cannot be kept without pickling it")
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {MARK: name}
    if isinstance(value, dict):
        _check(value)
        return {key: _without_arrays(each, arrays) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(each, arrays) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _with_arrays(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        return arrays[value[MARK]] if set(value) == {MARK} else {k: _with_arrays(v, arrays) for k, v in value.items()}
    return [_with_arrays(each, arrays) for each in value] if isinstance(value, list) else value
