"""A run folder that is looked at again and again: what it holds is read anew only where it has changed.

A run is `running` while its process lives, and `silent` where it gives no sign of life but may live; on another host,
which is named then, nobody can tell. Else it is as its summary says: finished, stopped, failed or killed.
"""

from __future__ import annotations

import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from cluster.episodes.reader import Episodes
from cluster.errors import ParleyError
from cluster.record.now import SILENCE_SECONDS
from cluster.record.run import object_of
from cluster.record.run_folder import existing
from cluster.report.comparing import compared
from cluster.report.reading import Run, read_run
from cluster.report.results import Results
from cluster.report.told import figures, meaning
from cluster.watch.advice import advice
from cluster.watch.lanes import lanes

FIGURES = ("metrics.jsonl", "summary.json")  # what the figures are made of
POINTS = 1_500  # on the map of intentions, so that placing them takes seconds


@dataclass(slots=True)
class Followed:
    folder: Path
    told: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # what was answered, and to which marks
    busy: dict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))  # one answer of a kind at a time
    games: Results | None = None

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
            "intentions": _mark(self.folder / "checkpoints"),
            "now": [self.state(), *self.now().values()],
        }

    def now(self) -> dict[str, Any]:
        """What the run does at this moment; empty where nothing is going on."""
        try:
            return object_of(self.folder / "now.json")
        except ParleyError:  # just replaced
            return {}

    def state(self) -> str:
        if end := self._summary().get("end"):  # null in one that goes on
            return end["how"]
        return self._at_work() or self.end().get("how") or "killed"

    def _at_work(self) -> str | None:
        now, here = self.now(), socket.gethostname()
        process, host = now.get("process"), now.get("host", here)
        if process is None or (host == here and not Path(f"/proc/{process}").is_dir()):
            return None
        silent = time.time() - _changed(self.folder / "now.json") > SILENCE_SECONDS
        return ("silent" if silent else "running") + (f" on {host}" if host != here else "")

    def end(self) -> dict[str, Any]:
        """How it ended; empty while it runs."""
        summary = self._summary()  # of an earlier version it does not say
        return (summary["end"] or {}) if "end" in summary else {"how": "finished"} if summary else {}

    def _summary(self) -> dict[str, Any]:
        try:
            return object_of(self.folder / "summary.json")
        except ParleyError:  # just replaced
            return {}

    def figures(self) -> dict[str, Any]:
        """All that is drawn of a run beside its games; read again where it has changed."""
        marks = self.marks()
        told = self._once("figures", (marks["figures"], marks["games"]), self._figures)
        return told | {"state": self.state(), "now": self.now()}

    def results(self) -> dict[str, Any] | None:
        """How its games went."""
        self.games = self.games or Results(self.episodes)
        return self._once("results", self.marks()["games"], self.games.told)

    def intentions(self) -> dict[str, Any]:
        """What was meant: read again with each checkpoint, which holds the newest space."""
        return self._once("intentions", self.marks()["intentions"], self._intentions)

    def _once(self, what: str, mark: Any, work_out: Callable[[], Any]) -> Any:
        with self.busy[what]:
            if what not in self.told or self.told[what][0] != mark:
                self.told[what] = (mark, work_out())
            return self.told[what][1]

    def read(self) -> Run:
        return self._once("run", self.marks()["figures"], lambda: read_run(self.folder, spaces=False))

    def _figures(self) -> dict[str, Any]:
        try:
            run = self.read()
        except ParleyError as error:  # before its first line
            return {"name": self.name, "nothing": str(error)}
        return figures(run) | {
            "advice": advice(run.rows),
            "lanes": lanes(run.rows, self.kept()),
            "failures": failures(run.rows),
            "end": self.end(),
        }

    def _intentions(self) -> dict[str, Any]:
        return meaning(read_run(self.folder), POINTS, say=lambda _: None)[0]

    def kept(self, where: str | None = None) -> Episodes | None:
        """The store of its games, if it has one."""
        return Episodes(self.episodes, where) if self.episodes.is_dir() else None


def _changed(path: Path) -> float:
    """When; long ago where it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _mark(path: Path) -> list[int]:
    try:
        seen = os.stat(path)
    except OSError:
        return []
    return [seen.st_mtime_ns, seen.st_size]


def side_by_side(runs: Sequence[Followed]) -> list[dict[str, Any]]:
    """Those that have begun: of each game its runs, by recipe and seeds."""
    begun = []
    for run in runs:
        with suppress(ParleyError):  # before its first line
            begun.append(run.read())
    return compared(begun)


def failures(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many episodes failed for each reason so far."""
    last = rows[-1]
    return {key.removeprefix("failures/"): last[key] for key in sorted(last) if key.startswith("failures/")}
