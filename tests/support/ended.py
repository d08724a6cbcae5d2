"""Whether a process, of whoever's, has ended. A zombie has."""

from __future__ import annotations

import time
from pathlib import Path


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # before it is opened, or while it is read
        return False


def gone(process: int, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not lives(process):
            return True
        time.sleep(0.05)
    return False
