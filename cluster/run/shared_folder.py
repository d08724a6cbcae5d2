"""That `output` is shared: each learner rank writes its part of a checkpoint on its own node, and the run, which lists
the files and resumes from them, may be on another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from cluster.errors import RunError

LEARNED = "learner", "policy"  # folders of a checkpoint that ranks write


class Ranks(Protocol):
    def blind_to(self, file: Path) -> Sequence[int]:
        """The ranks that do not see a file."""


def check_shared(folder: Path, ranks: Ranks) -> None:
    """The ranks look for a file that is written here."""
    token = folder / f".seen-{uuid4().hex}"
    token.touch()
    try:
        blind = ranks.blind_to(token)
    finally:
        token.unlink()
    if blind:
        raise RunError(f"learner rank {', '.join(map(str, blind))} does not see {folder}: {_wanted()}")


def check_written(checkpoint: Path) -> None:
    """What they wrote is here."""
    for part in LEARNED:
        if not any((checkpoint / part).glob("*")):
            raise RunError(f"the learners wrote {checkpoint / part} on another disk: {_wanted()}; nothing is deleted")


def _wanted() -> str:
    return "`output` has to be a folder that all nodes share"
