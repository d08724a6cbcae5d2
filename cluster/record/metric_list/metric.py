"""One entry of the list of metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass

HIGHER, LOWER = "higher", "lower"  # is better


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` is the name in metrics.jsonl. In it `<word>` stands for any text, `{a,b}` for one of the words."""

    name: str
    unit: str
    meaning: str
    better: str = ""  # HIGHER, LOWER, or neither
    exported: tuple[str, ...] = ()  # names in Ray and Prometheus, beside parley_value; a shared one is a sum
    dashboard: str = ""  # title of its panel in Grafana
    panel: str = ""  # title of its panel in a report
    logarithmic: bool = False  # that panel's axis

    @property
    def section(self) -> str:
        return self.name.partition("/")[0]

    def matches(self, name: str) -> bool:
        return re.fullmatch(self.pattern, name) is not None

    @property
    def pattern(self) -> str:
        """As a regular expression."""
        parts = re.split(r"(<\w+>|\{[\w,]+\})", self.name)
        return "".join(_expression(part) for part in parts)


def _expression(part: str) -> str:
    if part.startswith("<"):
        return ".+"
    if part.startswith("{"):
        return f"(?:{part[1:-1].replace(',', '|')})"
    return re.escape(part)
