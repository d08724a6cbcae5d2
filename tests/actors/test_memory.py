"""What was freed goes back to the system, also from between what is still in use."""

from __future__ import annotations

import platform

import numpy as np
import psutil
import pytest

from actors import memory

BLOCK, BLOCKS, MIB = 100_000, 1_000, 2**20  # bytes of one; below what glibc maps apart


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="glibc keeps what is freed; another C library is not tried"
)
def test_freed_memory_between_what_is_in_use_is_given_back():
    def held() -> float:
        return psutil.Process().memory_info().rss / MIB

    memory.give_back()
    before = held()
    blocks = [np.ones(BLOCK, np.uint8) for _ in range(BLOCKS)]
    taken = held() - before
    kept = blocks[::10]
    del blocks
    assert held() - before > 0.8 * taken > 60, "glibc gave it back by itself: there is nothing to see"
    memory.give_back()
    assert held() - before < 0.3 * taken and all(block.all() for block in kept)


def test_once_a_minute_is_enough(monkeypatch):
    given = []
    monkeypatch.setattr(memory, "give_back", lambda: given.append(True))
    spare = memory.Spare()
    for now in (1000.0, 1000.1, 1059.9, 1060.0, 1060.1, 1130.0):
        spare.look(now)
    assert len(given) == 3
