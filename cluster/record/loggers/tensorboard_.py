"""TensorBoard: event files in the run's folder. `tensorboard --logdir runs` shows all runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers.logger import Logged, Logger, result_of
from cluster.record.transcript import Row


class Made(Logger):
    def __init__(self, run: Logged, settings: LoggerSettings):
        self.config = {
            key: value if isinstance(value, bool | int | float | str) else str(value)
            for key, value in run.config.items()
        }
        self.constant: dict[str, float] = {}  # names whose value has been 0 so far
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
        for name, value in values.items():
            if value == 0 and self.constant.get(name, 0.0) == 0:
                self.constant[name] = 0.0
                continue
            self.constant[name] = 1.0
            self.events.add_scalar(name, value, update)
        self.events.flush()

    def games(self, update: int, games: Sequence[Row]) -> None:
        shown = "\n\n".join(f"<pre>{_shown(row.game)}</pre>" for row in games)
        self.events.add_text("held-out games", shown, update)
        self.events.flush()

    def end(self, summary: Mapping[str, Any]) -> None:
        if result := result_of(summary):
            self.events.add_hparams(self.config, result, run_name="result")
        self.events.close()


def _shown(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
