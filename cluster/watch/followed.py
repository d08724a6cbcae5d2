"""A run folder that is looked at again and again: what it holds is read anew only where it has changed.

A run is `running` while its process lives. Then it is as its summary says: finished, stopped, failed or killed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.episodes.reader import Episodes
from cluster.errors import ParleyError
from cluster.record.run import object_of
from cluster.record.run_folder import existing
from cluster.report.figures import curves, headline, pooling, settings
from cluster.report.reading import Run, read_run
from cluster.watch.advice import advice
from cluster.watch.lanes import lanes

FIGURES = ("metrics.jsonl", "summary.json")  # what the figures are made of


@dataclass(slots=True)
class Followed:
    folder: Path
    run: Run | None = None
    read: tuple | None = None  # the marks of what `run` was read from
    figures_of: tuple | None = None
    told: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: str | Path) -> Followed:
        return cls(existing(folder).resolve())

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def episodes(self) -> Path:
        return self.folder / "episodes"

    def marks(self) -> dict[str, Any]:
        """Something that is another thing after a change: of the figures, the games, and what the run does now."""
        return {
            "figures": [_mark(self.folder / name) for name in FIGURES],
            "games": _mark(self.episodes),
            "now": [self.state(), *self.now().values()],
        }

    def now(self) -> dict[str, Any]:
        """What the run does at this moment; empty where nothing is going on."""
        try:
            return object_of(self.folder / "now.json")
        except ParleyError:  # just replaced
            return {}

    def state(self) -> str:
        process = self.now().get("process")
        if isinstance(process, int) and Path(f"/proc/{process}").is_dir():
            return "running"
        return self.end().get("how") or "killed"

    def end(self) -> dict[str, Any]:
        """How it ended; empty while it runs."""
        try:
            summary = object_of(self.folder / "summary.json")
        except ParleyError:  # just replaced
            return {}
        return summary.get("end") or ({"how": "finished"} if summary else {})

    def figures(self) -> dict[str, Any]:
        """All that is drawn of a run beside its games; read again where it has changed."""
        mark = (*self.marks()["figures"], _mark(self.episodes))
        if mark != self.figures_of:
            self.told, self.figures_of = self._figures(), mark
        return self.told | {"state": self.state(), "now": self.now()}

    def _figures(self) -> dict[str, Any]:
        try:
            run = read_run(self.folder)
        except ParleyError as error:  # before its first line
            return {"name": self.name, "nothing": str(error)}
        return {
            "name": self.name,
            "game": run.config.game.name,
            "settings": settings(run),
            "headline": headline(run),
            "curves": curves(run),
            "pooling": pooling(run),
            "advice": advice(run.rows),
            "lanes": lanes(run.rows, self.kept()),
            "failures": failures(run.rows),
            "end": self.end(),
        }

    def kept(self, where: str | None = None) -> Episodes | None:
        """The store of its games, if it has one."""
        return Episodes(self.episodes, where) if self.episodes.is_dir() else None


def _mark(path: Path) -> list[int]:
    try:
        seen = os.stat(path)
    except OSError:
        return []
    return [seen.st_mtime_ns, seen.st_size]


def failures(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many episodes failed for each reason so far."""
    last = rows[-1]
    return {key.removeprefix("failures/"): last[key] for key in sorted(last) if key.startswith("failures/")}
