"""How far a batch or an evaluation has come, for whoever shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

SHOWN = 2  # reasons


@dataclass(frozen=True, slots=True)
class Progress:
    batch: int | None  # the one that is being played; None: held-out games
    played: int  # games
    games: int  # of the batch or of the evaluation
    failures: Mapping[str, int]  # so far in the run, by reason

    @property
    def failed(self) -> str:
        """How many, and the commonest reasons; nothing where none has failed."""
        if not self.failures:
            return ""
        reasons = ", ".join(reason for reason, _ in Counter(self.failures).most_common(SHOWN))
        return f", {sum(self.failures.values())} failures ({reasons})"
