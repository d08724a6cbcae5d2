"""trackio: W&B's shape, kept on this machine, or shown by a Hugging Face space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trackio

from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers.logger import Logged, Reader, result_of
from cluster.record.transcript import Row


class Made(Reader):
    def __init__(self, run: Logged, settings: LoggerSettings):
        chosen = settings.trackio
        self.run = trackio.init(
            project=chosen.project,
            name=run.name,
            space_id=chosen.space,
            config={
                key: value if isinstance(value, bool | int | float | str) else str(value)
                for key, value in run.config.items()
            },
            resume="allow",
            embed=False,
        )

    def log(self, update: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=update)

    def games(self, update: int, games: Sequence[Row]) -> None:
        rows = [row._asdict() | {"game": f"```\n{row.game}\n```"} for row in games]  # which it reads as Markdown
        self.run.log({"held-out games": trackio.Table(data=rows)}, step=update)

    def report(self, page: Path) -> None:
        self.run.log_artifact(page, name=f"report-{self.run.name}", type="report")

    def end(self, summary: Mapping[str, Any]) -> None:
        if result := result_of(summary):
            self.run.log(result, step=int(summary["updates"]))
        self.run.finish()
