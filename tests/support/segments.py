"""Segments of shared memory that outlive their sync. Other processes of the machine make and close theirs meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path

SECONDS = 20.0


def segments() -> set[tuple[str, str]]:
    """Each open one: the process with its descriptor, and the inode."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(entry).startswith("/memfd:parley"):
                found.add((str(entry), str(entry.stat().st_ino)))
        except OSError:  # gone meanwhile, or another user's
            continue
    return found


def left_behind(before: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Of the segments that are new, those that stay."""
    found, deadline = segments() - before, time.monotonic() + SECONDS
    while found and time.monotonic() < deadline:
        time.sleep(0.2)
        found &= segments()
    return found
