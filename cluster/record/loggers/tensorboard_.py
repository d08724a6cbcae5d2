"""TensorBoard: event files in the run's folder. `tensorboard --logdir runs` shows all runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers.kept import Once
from cluster.record.loggers.logger import Logged, Logger, result_of
from cluster.record.transcript import Row

COUNTERS = "failures/", "fleet/", "ledger/", "record/", "tokens/"


class Made(Logger):
    def __init__(self, run: Logged, settings: LoggerSettings):
        self.config = {
            key: value if isinstance(value, bool | int | float | str) else str(value)
            for key, value in run.config.items()
        }
        self.moved: set[str] = set()  # counters that are no longer 0
        self.resume_at, self.once = run.resume_at, Once(run.folder, "tensorboard")
        self.events = SummaryWriter(
            str(run.folder / "tensorboard"),
            purge_step=run.resume_at + 1 if run.resume_at else None,
            filename_suffix=f".{run.resume_at}",  # a start within the same second has a file of its own
        )
        if not run.resume_at:
            rows = "".join(f"| {key} | {str(value)[:200]} |\n" for key, value in self.config.items())
            self.events.add_text("settings", f"| setting | value |\n|---|---|\n{rows}", 0)

    def log(self, update: int, values: Mapping[str, float]) -> None:
        """A counter that has never moved is no curve: it is left out until it does."""
        new = self._new(update, values)
        self.moved |= {name for name, value in new.items() if value != 0}
        for name, value in new.items():
            if name in self.moved or not name.startswith(COUNTERS):
                self.events.add_scalar(name, value, update)
        self.events.flush()
        self._told(update, {name: value for name, value in new.items() if name.startswith("evaluation/")})

    def _new(self, update: int, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """What is purged does not have the update that a run goes on from, nor an evaluation of it."""
        return self.once.new(update, values) if update <= self.resume_at else values

    def _told(self, update: int, values: Mapping[str, Any]) -> None:
        if values:
            self.once.logged(update, values)

    def games(self, update: int, games: Sequence[Row]) -> None:
        shown = "\n\n".join(f"<pre>{_shown(row.game)}</pre>" for row in games)
        for name, text in self.once.new(update, {"held-out games": shown}).items():  # texts are not purged
            self.events.add_text(name, text, update)
            self.events.flush()
            self._told(update, {name: text})

    def end(self, summary: Mapping[str, Any]) -> None:
        if result := result_of(summary):
            self.events.add_hparams(self.config, result, run_name="result")
        self.events.close()


def _shown(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
