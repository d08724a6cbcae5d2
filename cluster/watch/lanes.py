"""Who did what when: the stages of the training loop and the games of each worker, on one axis of time.

A row of metrics says when an update ended and how long each stage of it took, all in all; the stages are drawn in the
order in which the loop has them. A kept game says when it ended and how long it took, so what a worker had in flight
at any moment can be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cluster.episodes.reader import Episodes

STAGES = ("collect", "shape", "learn", "samples", "sync", "evaluate", "checkpoint", "record")  # as the loop has them
UPDATES = 40  # that are drawn, the newest
BINS = 160
WORKERS = 64  # that are drawn


def lanes(rows: Sequence[dict[str, Any]], games: Episodes | None) -> dict[str, Any] | None:
    timed = timed_rows(rows, UPDATES)
    if not timed:
        return None
    begin, end = timed[0]["time"] - timed[0]["seconds/update"], timed[-1]["time"]
    return {
        "begin": round(begin, 2),
        "seconds": round(end - begin, 2),
        "updates": [[row["update"], _rounded(stages_of(row, begin))] for row in timed],
        "workers": _in_flight(games, timed[0]["update"], begin, end) if games is not None and end > begin else [],
    }


def timed_rows(rows: Sequence[dict[str, Any]], updates: int) -> list[dict[str, Any]]:
    """The newest that say how long they took."""
    return [row for row in rows if "seconds/update" in row and "time" in row][-updates:]


def stages_of(row: dict[str, Any], begin: float) -> list[tuple[str, float, float]]:
    """(stage, from, to) in seconds since `begin`."""
    at, found = row["time"] - row["seconds/update"] - begin, []
    for stage in STAGES:
        if seconds := row.get(f"seconds/{stage}", 0.0):
            found.append((stage, at, at + seconds))
            at += seconds
    return found


def _rounded(spans: list[tuple[str, float, float]]) -> list[list[Any]]:
    return [[stage, round(start, 3), round(stop, 3)] for stage, start, stop in spans]


def _in_flight(games: Episodes, update: int, begin: float, end: float) -> list[dict[str, Any]]:
    """Of each worker the mean number of games that were being played, over BINS equal stretches of time."""
    table = Episodes(games.folder, f"update >= {update}").table(["worker", "ended", "seconds"])
    edges = np.linspace(begin, end, BINS + 1)
    columns = [table[name].to_numpy().astype(float) for name in ("worker", "ended", "seconds")]
    worker, ended, seconds = (column[np.isfinite(columns[0]) & np.isfinite(columns[2])] for column in columns)
    found = []
    for number in np.unique(worker)[:WORKERS]:
        mine = worker == number
        starts, stops = ended[mine] - seconds[mine], ended[mine]
        # played seconds up to each edge, summed over games
        played = np.array([np.clip(edge - starts, 0, stops - starts).sum() for edge in edges])
        busy = np.diff(played) / np.diff(edges)
        found.append({"worker": int(number), "games": [round(value, 2) for value in busy.tolist()]})
    return found
