"""A folder of one process outside of the run's, that nobody else needs: gone with the process, or with the next one.

    own = OwnFolder("parley-adapter-", parent)    own.path holds what it is for
    own.close()                                   also at exit, if nobody calls it

A process that is killed removes nothing; but the lock of its folder goes with it, and whoever makes a folder of the
same kind there removes those that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path
from typing import TextIO

SETTLED_SECONDS = 60.0


class OwnFolder:
    def __init__(self, prefix: str, parent: Path | None = None):
        """`parent`: None for the folder of temporary files."""
        parent = parent or Path(tempfile.gettempdir())
        sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self.lock = held(self.path)
        self.close = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def shared_memory() -> Path | None:
    return Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None


def held(folder: Path) -> TextIO | None:
    """This folder's lock, which goes with the process that holds it, however that ends; None
    if another has it."""
    lock = open(folder / "lock", "w")  # open for as long as the folder is used
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def sweep(parent: Path, prefix: str) -> None:
    """Remove what processes that were killed have left behind. One that was made this moment
    may not have its lock yet, so only older ones are looked at."""
    for folder in parent.glob(prefix + "*"):
        try:
            if time.time() - folder.stat().st_mtime > SETTLED_SECONDS and (lock := held(folder)):
                shutil.rmtree(folder, ignore_errors=True)
                lock.close()
        except OSError:  # another user's, or gone meanwhile
            continue
