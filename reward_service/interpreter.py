"""Work beside the traffic: whoever is in Python keeps every other thread of the process out of it.

So such work is done in steps of a few milliseconds at most, or in numpy, or in another process, and
between two steps it makes way within half a millisecond.
"""

from __future__ import annotations

import atexit
import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MAKE_WAY_SECONDS = 0.0005  # Python's own is 0.005, and a small batch takes the interpreter back ten times

_changing = threading.Lock()
_making_way = 0  # threads that do
_before = 0.0  # the interval without them


@contextmanager
def making_way() -> Iterator[None]:
    """Threads that ask for the interpreter soon get it, until the last one that makes way is done."""
    global _making_way, _before
    with _changing:
        if not _making_way:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, MAKE_WAY_SECONDS))
        _making_way += 1
    try:
        yield
    finally:
        with _changing:
            _making_way -= 1
            if not _making_way:
                sys.setswitchinterval(_before)


def settle() -> None:
    """What has been loaded so far stays for good: the garbage collector need not look at it again. A full
    collection of a process with torch in it keeps everybody out of Python for a tenth of a second."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # or some libraries take what is never freed for a leak
