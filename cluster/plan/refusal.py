"""Why there is no plan, and what might make one."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """`changes`: settings by dotted key to be tried, the best first. The words of the change that works stand
    between `before` and `after`; `otherwise` ends the line where none does."""

    def __init__(self, reason: str, *changes: dict[str, Any], before: str = "", after: str = "", otherwise: str = ""):
        super().__init__(reason)
        self.changes, self.before, self.after, self.otherwise = changes, before, after, otherwise

    def and_also(self, other: Refusal | None) -> Refusal:
        """Both reasons, this one first; what is proposed for it leads to what is proposed for the other."""
        if other is None:
            return self
        both = f"{self}, and {other}"
        return Refusal(both, *self.changes, before=self.before, after=self.after, otherwise=self.otherwise)

    def with_change(self, words: str) -> str:
        return f"{self}: {self.before}{words}{self.after}"
