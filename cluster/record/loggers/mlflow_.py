"""MLflow: a run of an experiment. Its id is kept in the run's folder, so a resumed one is gone on with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers.logger import Logged, Reader, result_of
from cluster.record.transcript import Row

LONGEST = 6000  # characters of a parameter that MLflow keeps
AT_ONCE = 90  # parameters in one call


class Made(Reader):
    def __init__(self, run: Logged, settings: LoggerSettings):
        beside = f"sqlite:///{run.folder.parent.absolute() / 'mlflow.db'}"
        self.client = MlflowClient(settings.mlflow.uri or os.environ.get("MLFLOW_TRACKING_URI") or beside)
        kept = run.folder / "mlflow.id"
        if kept.is_file():
            self.id = kept.read_text().strip()
            self.client.update_run(self.id, status="RUNNING")
            return
        found = self.client.get_experiment_by_name(settings.mlflow.experiment)
        experiment = found.experiment_id if found else self.client.create_experiment(settings.mlflow.experiment)
        self.id = self.client.create_run(experiment, run_name=run.name).info.run_id
        kept.write_text(f"{self.id}\n")
        params = [Param(key, str(value)[:LONGEST]) for key, value in run.config.items()]
        for start in range(0, len(params), AT_ONCE):
            self.client.log_batch(self.id, params=params[start : start + AT_ONCE])

    def log(self, update: int, values: Mapping[str, float]) -> None:
        now = mlflow.utils.time.get_current_time_millis()
        self.client.log_batch(
            self.id, metrics=[Metric(_name(name), value, now, update) for name, value in values.items()]
        )

    def games(self, update: int, games: Sequence[Row]) -> None:
        """One table, which each evaluation adds rows to."""
        columns = {name: [getattr(row, name) for row in games] for name in Row._fields}
        self.client.log_table(self.id, {"update": [update] * len(games)} | columns, "held_out_games.json")

    def report(self, page: Path) -> None:
        self.client.log_artifact(self.id, str(page))

    def end(self, summary: Mapping[str, Any]) -> None:
        self.log(int(summary.get("updates", 0)), result_of(summary))
        self.client.log_dict(self.id, dict(summary), "summary.json")
        self.client.set_terminated(self.id, "FINISHED" if summary else "KILLED")


def _name(name: str) -> str:
    """MLflow takes letters, digits, and _-./ and spaces."""
    return "".join(each if each.isalnum() or each in "_-./ " else "_" for each in name)
