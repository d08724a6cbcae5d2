"""Weights & Biases: a run is one by the id in its folder, so a resumed one is gone on with there, too. Of updates that
it does again, the values of the first time stay."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb

from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers.kept import Once, kept_id
from cluster.record.loggers.logger import Logged, Reader
from cluster.record.loggers.telling import END_SECONDS
from cluster.record.transcript import Row

WAIT_SECONDS = 30.0  # for the service to answer at the beginning; a run that ends meanwhile waits for it


class Made(Reader):
    def __init__(self, run: Logged, settings: LoggerSettings):
        chosen = settings.wandb
        self.once = Once(run.folder, "wandb")
        wandb.setup(wandb.Settings(silent=True))  # or it asks the terminal for a key
        self.run = wandb.init(
            project=chosen.project,
            entity=chosen.entity,
            mode=chosen.mode,
            id=kept_id(run, "wandb", secrets.token_hex(8)),
            name=run.name,
            resume="allow",
            dir=str(run.folder),
            config=dict(run.config),
            settings=wandb.Settings(init_timeout=WAIT_SECONDS, finish_timeout=END_SECONDS, console="off", silent=True),
        )
        self.run.define_metric("update")
        self.run.define_metric("*", step_metric="update")  # also of an evaluation that comes late

    def log(self, update: int, values: Mapping[str, Any]) -> None:
        if new := self.once.new(update, values):
            self.run.log({"update": update, **new})
            self.once.logged(update, new)

    def games(self, update: int, games: Sequence[Row]) -> None:
        rows = [[update, *row] for row in games]
        self.log(update, {"held-out games": wandb.Table(columns=["update", *Row._fields], data=rows)})

    def report(self, page: Path) -> None:
        made = wandb.Artifact(f"report-{self.run.id}", type="report")
        made.add_file(str(page))
        self.run.log_artifact(made)
        self.run.log({"report": wandb.Html(str(page), inject=False)})

    def end(self, summary: Mapping[str, Any]) -> None:
        self.run.summary.update(
            {f"result/{key}": value for key, value in summary.items() if not isinstance(value, list)}
        )
        self.run.finish(exit_code=0 if summary else 1)
