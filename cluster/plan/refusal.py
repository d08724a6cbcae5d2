"""Why there is no plan, and what might make one."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """`changes`: settings by dotted key, each to be tried alone, the best first. The line about the one that works
    has `before` and `after` around it; `otherwise` ends the line when none does."""

    def __init__(self, reason: str, *changes: dict[str, Any], before: str = "", after: str = "", otherwise: str = ""):
        super().__init__(reason)
        self.changes, self.before, self.after, self.otherwise = changes, before, after, otherwise
