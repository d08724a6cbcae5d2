"""Memory that was freed, given back to the system.

glibc keeps what an engine's passes free in pieces, between what is still in use, and takes new memory where none of
them fits. So a worker grew for an hour, and the driver, through which episodes of many sizes pass (benchmarks/soak.py).
Processes that live as long as a run does give it back now and then, where they are between two pieces of work.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

EVERY_SECONDS = 60.0  # it takes some 30 ms
M_MMAP_THRESHOLD, LARGE = -3, 128 * 1024  # glibc's own number and first value; it grows to 32 MiB with what is freed


class Spare:
    def __init__(self) -> None:
        self.given_back = 0.0  # when

    def look(self, now: float) -> None:
        if now - self.given_back >= EVERY_SECONDS:
            give_back()
            self.given_back = now


def give_back() -> None:
    """Of all threads; nothing where the C library is another one."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def return_large_pieces() -> None:
    """From now on in this process: each is the system's again when it is freed, which costs pages anew at each use."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)
