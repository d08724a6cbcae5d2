"""Shared memory that outlives what made it. Other processes of the machine make and unlink theirs meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

SECONDS = 20.0


def segments() -> set[str]:
    return {entry.name for entry in Path("/dev/shm").glob("psm_*")}


def left_behind(before: set[str]) -> set[str]:
    """Of the segments that are new, those that stay."""
    found, deadline = segments() - before, time.monotonic() + SECONDS
    while found and time.monotonic() < deadline:
        time.sleep(0.2)
        found &= segments()
    return found
