"""The clock of a run's stages: which part of an update took which seconds.

    stage a  |-----|                 |------|        seconds of a: those outside of b
    stage b        |-----------------|               seconds of b: all of its own

A stage that begins within another one takes its seconds out of the outer one. So no second is
counted twice, and where stages follow each other without a gap they add up to the wall time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WHOLE = "update"  # the name of all seconds of a lap, beside the stages that they went to


class StageClock:
    def __init__(self, now: Callable[[], float] = time.monotonic):
        self.now = now
        self.open: list[str] = []  # stages that have begun, the innermost last
        self.spent: Counter[str] = Counter()  # seconds by stage since the last lap
        self.total: Counter[str] = Counter()  # seconds by stage up to the last lap
        self.began = self.charged = now()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._charge()
        self.open.append(name)
        try:
            yield
        finally:
            self._charge()
            self.open.pop()

    def lap(self) -> dict[str, float]:
        """Seconds by stage since the lap before, and all of them together as `update`. Within a
        stage, what is still to come of it belongs to the next lap."""
        self._charge()
        spent, self.spent = self.spent, Counter()
        spent[WHOLE] = self.charged - self.began
        self.began = self.charged
        self.total += spent
        return dict(spent)

    def by_stage(self) -> dict[str, float]:
        """Seconds of each stage up to the last lap."""
        return {name: round(spent, 3) for name, spent in self.total.items() if name != WHOLE}

    def _charge(self) -> None:
        """Give the seconds since the last change of stage to the innermost one."""
        now = self.now()
        if self.open:
            self.spent[self.open[-1]] += now - self.charged
        self.charged = now
