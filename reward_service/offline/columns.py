"""Arrays on disk that grow row by row, and are read back mapped: whatever their size, memory is not.

A column is an ordinary .npy file. Its header is written twice: first as a place holder, and with the
number of rows once that is known; numpy pads the header so that both have the same length.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

BUFFERED = 1 << 16  # numbers held back before they are written


class Column:
    """Rows of one type, in the order they were added. Use as a context manager: an error leaves
    a file without a valid length, which `open_column` refuses."""

    def __init__(self, path: Path, dtype: str, width: int | None = None):
        """`width` numbers a row; None: plain numbers."""
        self.path, self.dtype, self.width = path, np.dtype(dtype), width
        self.rows = 0
        self._held: list[np.ndarray] = []
        self._holding = 0
        self._file = open(path, "wb")
        self._file.write(self._header(0))

    def _header(self, rows: int) -> bytes:
        shape = (rows,) if self.width is None else (rows, self.width)
        made = io.BytesIO()
        npy.write_array_header_1_0(made, {"descr": self.dtype.str, "fortran_order": False, "shape": shape})
        return made.getvalue()

    def add(self, rows) -> None:
        block = np.asarray(rows, self.dtype)
        if block.shape[1:] != (() if self.width is None else (self.width,)):
            raise ValueError(f"rows of shape {block.shape[1:]} do not fit into {self.path.name}")
        self.rows += len(block)
        self._held.append(block)
        self._holding += block.size
        if self._holding >= BUFFERED:
            self._write()

    def _write(self) -> None:
        for block in self._held:
            self._file.write(np.ascontiguousarray(block).tobytes())
        self._held, self._holding = [], 0

    def __enter__(self) -> Column:
        return self

    def __exit__(self, kind, *exception) -> None:
        if kind is None:
            self._write()
            self._file.seek(0)
            self._file.write(self._header(self.rows))
        self._file.close()


def open_column(path: Path) -> np.ndarray:
    """The rows, mapped and read-only; an empty column is an ordinary empty array."""
    try:
        with open(path, "rb") as file:
            version = npy.read_magic(file)
            shape, _, dtype = npy.read_array_header_1_0(file) if version == (1, 0) else ((), False, np.dtype("f8"))
            there = path.stat().st_size - file.tell()
        if there != dtype.itemsize * int(np.prod(shape)):
            raise ValueError(f"it has {there} bytes of rows, its header says {shape}")
        return np.empty(shape, dtype) if 0 in shape else np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no whole column: {error}") from error
