"""trackio: W&B's shape, kept on this machine, or shown by a Hugging Face space. It knows runs by name, so theirs has a
random end. Of updates that a resumed run does again, the values of the first time stay."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trackio

from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers.kept import Once, kept_id
from cluster.record.loggers.logger import Logged, Reader, result_of
from cluster.record.transcript import Row


class Made(Reader):
    def __init__(self, run: Logged, settings: LoggerSettings):
        chosen = settings.trackio
        self.once = Once(run.folder, "trackio")
        self.run = trackio.init(
            project=chosen.project,
            name=kept_id(run, "trackio", f"{run.name}-{secrets.token_hex(4)}"),
            space_id=chosen.space,
            config={
                key: value if isinstance(value, bool | int | float | str) else str(value)
                for key, value in run.config.items()
            },
            resume="allow",
            embed=False,
        )

    def log(self, update: int, values: Mapping[str, Any]) -> None:
        if new := self.once.new(update, values):
            self.run.log(new, step=update)
            self.once.logged(update, new)

    def games(self, update: int, games: Sequence[Row]) -> None:
        rows = [row._asdict() | {"game": f"```\n{row.game}\n```"} for row in games]  # which it reads as Markdown
        self.log(update, {"held-out games": trackio.Table(data=rows)})

    def report(self, page: Path) -> None:
        self.run.log_artifact(page, name=f"report-{self.run.name}", type="report")

    def end(self, summary: Mapping[str, Any]) -> None:
        if result := result_of(summary):
            self.log(int(summary["updates"]), result)
        self.run.finish()
