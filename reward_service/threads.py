"""Threads of background work, and the threads that answer requests: only one at a time holds Python's lock.

Background work is therefore done in steps of a few milliseconds at most, or in numpy, or in another process,
and while it goes on a waiting thread gets the lock within half a millisecond.
"""

from __future__ import annotations

import atexit
import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_SECONDS = 0.0005  # Python's own is 0.005, and a small batch takes the interpreter back ten times

_changing = threading.Lock()
_short_intervals = 0  # threads inside of it
_before = 0.0  # the interval without them


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Waiting threads get Python's lock soon, until the last thread that is in here has left."""
    global _short_intervals, _before
    with _changing:
        if not _short_intervals:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, SWITCH_SECONDS))
        _short_intervals += 1
    try:
        yield
    finally:
        with _changing:
            _short_intervals -= 1
            if not _short_intervals:
                sys.setswitchinterval(_before)


def freeze_garbage_collector() -> None:
    """What has been loaded so far stays for good: the garbage collector need not look at it again. A full
    collection of a process with torch in it keeps everybody out of Python for a tenth of a second."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or some libraries take what is never freed for a leak
