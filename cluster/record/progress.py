"""How far a batch or an evaluation has come, for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    batch: int | None  # the one that is being played; None: held-out games
    played: int  # games
    games: int  # of the batch or of the evaluation
    failures: int  # so far in the run
