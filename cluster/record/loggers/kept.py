"""What a run's folder keeps of a tool, so that a resumed run is the same one there and repeats nothing.

TOOL.id             the run's id in the tool
TOOL.logged.json    the newest update that the tool has of each number
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.record.loggers.logger import Logged
from cluster.record.run_folder import to_json, write_whole


def kept_id(run: Logged, tool: str, new: str) -> str:
    """`new`: of a run that has none. One that was started when no id was kept goes on under its name."""
    file = run.folder / f"{tool}.id"
    if not file.is_file():
        write_whole(file, f"{run.name if run.resume_at else new}\n")
    return file.read_text().strip()


class Once:
    """After a resume a run does updates again that a tool has already: what it was told first stays there."""

    def __init__(self, folder: Path, tool: str):
        self.file = folder / f"{tool}.logged.json"
        self.newest: dict[str, int] = json.loads(self.file.read_text()) if self.file.is_file() else {}
        self.at_the_start = dict(self.newest)

    def new(self, update: int, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if update > self.at_the_start.get(name, -1)}

    def logged(self, update: int, values: Mapping[str, Any]) -> None:
        self.newest |= dict.fromkeys(values, update)
        write_whole(self.file, to_json(self.newest))
