"""Memory that was freed, given back to the system.

glibc keeps what an engine's passes free in pieces, between what is still in use, and takes new memory where none of
them fits. So a worker grew for an hour (benchmarks/soak.py).
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

EVERY_SECONDS = 60.0  # it takes some 30 ms


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
