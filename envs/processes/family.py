"""A process and all that it has started, as Linux tells it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
JUST_ENDED = (FileNotFoundError, ProcessLookupError)


def family(pid: int) -> list[int]:
    """The process first. Who has ended has no family."""
    found = [pid]
    for each in found:
        found += children(each)
    return found


def children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(*JUST_ENDED):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(*JUST_ENDED):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def megabytes(pid: int) -> float:
    """What the family holds in memory now."""
    pages = 0
    for each in family(pid):
        with suppress(*JUST_ENDED):
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
    return pages * PAGE / 2**20
