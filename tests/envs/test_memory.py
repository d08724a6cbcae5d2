"""What was freed goes back to the system, also from between what is still in use."""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np
import psutil
import pytest

from envs import memory

BLOCK, BLOCKS, MIB = 100_000, 1_000, 2**20  # bytes of one; below what glibc maps apart


of_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="glibc keeps what is freed; another C library is not tried"
)
BETWEEN = """
import sys, psutil
from envs import memory
if sys.argv[1:]:
    memory.return_large_pieces()
del_me = bytes(2**23)  # glibc keeps pieces of this size from now on, unless it is told not to
del del_me
held = lambda: psutil.Process().memory_info().rss / 2**20
before = held()
large, small = zip(*((b"x" * 300_000, b"y" * 2_000) for _ in range(200)))
taken = held()
del large
print((held() - before) / (taken - before))
"""


@of_glibc
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


@of_glibc
@pytest.mark.parametrize("returned", [True, False])
def test_large_pieces_are_returned_when_they_are_freed(returned):
    command = [sys.executable, "-c", BETWEEN, *["yes"] * returned]
    kept = float(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert kept < 0.1 if returned else kept > 0.9, "glibc did it by itself: there is nothing to see"


def test_once_a_minute_is_enough(monkeypatch):
    given = []
    monkeypatch.setattr(memory, "give_back", lambda: given.append(True))
    spare = memory.Spare()
    for now in (1000.0, 1000.1, 1059.9, 1060.0, 1060.1, 1130.0):
        spare.look(now)
    assert len(given) == 3
