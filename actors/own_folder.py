"""A folder of one process outside of the run's, that nobody else needs: gone with the process, or with the next one.

    own = OwnFolder("parley-adapter-", parent)    own.path holds what it is for
    own.close()                                   also at exit, if nobody calls it

A process that is killed removes nothing; but the lock of its folder goes with it, and whoever makes a folder of the
same kind there removes those that nobody holds. Files elsewhere that a library has made for the process can be listed
(`goes_with`); they go with the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

ELSEWHERE = "elsewhere"  # in such a folder: one path a line


class OwnFolder:
    def __init__(self, prefix: str, parent: Path | None = None):
        """`parent`: None for the folder of temporary files."""
        parent = parent or Path(tempfile.gettempdir())
        sweep(parent, prefix)
        made = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=parent))
        self.lock = held(made)
        self.path = made.rename(parent / made.name.removeprefix("."))  # with its lock, or others would remove it
        self.close = weakref.finalize(self, _remove, self.path)

    def goes_with(self, files: Iterable[Path]) -> None:
        (self.path / ELSEWHERE).write_text("\n".join(map(str, files)))


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
    """Remove what processes that were killed have left behind."""
    for folder in parent.glob(prefix + "*"):
        try:
            mine = folder.stat().st_uid == os.getuid()  # another user's list may name any file
            if mine and (lock := held(folder)):
                _remove(folder)
                lock.close()
        except OSError:  # gone meanwhile
            continue


def _remove(folder: Path) -> None:
    listed = folder / ELSEWHERE
    for file in listed.read_text().splitlines() if listed.is_file() else []:
        Path(file).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
