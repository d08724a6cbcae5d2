"""Sums over ragged arrays: many short rows, stored end to end.

`backward_sums` is the one recursion that all credit is made of,

    y[k] = x[k] + decay[k] * y[k + 1],        y beyond the end is 0

where a decay of 0 is a wall: nothing flows across it, so rows of any lengths lie in one
array. It takes two passes over sqrt(n) blocks of sqrt(n) entries, all blocks at once: what
each block alone adds up to, then the entries themselves, started with what comes after the
block. Only numbers between 0 and 1 are multiplied on the way and nothing is divided, so it
is as exact as the plain loop and one row may be as long as the array.
"""

from __future__ import annotations

from math import isqrt

import numpy as np


def backward_sums(x: np.ndarray, decay: np.ndarray) -> np.ndarray:
    """float64, as long as x."""
    width = isqrt(len(x)) + 1  # entries of a block
    blocks = -(-len(x) // width)
    added, kept = _in_blocks(x, width, blocks), _in_blocks(decay, width, blocks)
    total, through = np.zeros(blocks), np.ones(blocks)
    for place in range(width - 1, -1, -1):
        total = added[place] + kept[place] * total
        through *= kept[place]
    following = np.zeros(blocks)
    for block in range(blocks - 2, -1, -1):
        following[block] = total[block + 1] + through[block + 1] * following[block + 1]
    for place in range(width - 1, -1, -1):
        following = added[place] + kept[place] * following
        added[place] = following
    return added.T.reshape(-1)[: len(x)]


def _in_blocks(x: np.ndarray, width: int, blocks: int) -> np.ndarray:
    """float64 [width, blocks], a copy: column b is block b, the last one filled up with zeros."""
    padded = np.zeros(width * blocks)
    padded[: len(x)] = x
    return np.ascontiguousarray(padded.reshape(blocks, width).T)


def segment_sums(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """float64 [rows]: the sum of each row; 0 for an empty one."""
    return np.bincount(np.repeat(np.arange(len(lengths)), lengths), x, minlength=len(lengths))
