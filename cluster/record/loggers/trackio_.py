"""trackio: W&B's shape, kept on this machine, or shown by a Hugging Face space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trackio

from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers.logger import Logged, Logger


class Made(Logger):
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

    def games(self, update: int, text: str) -> None:
        self.run.log({"held-out games": trackio.Markdown(f"```\n{text}\n```")}, step=update)

    def end(self, summary: Mapping[str, Any]) -> None:
        self.run.finish()
