"""MLflow: a run of an experiment. Its id is kept in the run's folder, so a resumed one is gone on with. Of updates that
it does again, the values of the first time stay."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from cluster.recipe.loggers import LoggerSettings
from cluster.record.loggers.kept import Once
from cluster.record.loggers.logger import Logged, Reader, result_of
from cluster.record.run_folder import write_whole
from cluster.record.transcript import Row

LONGEST = 6000  # characters of a parameter that MLflow keeps
AT_ONCE = 90  # parameters in one call


class Made(Reader):
    def __init__(self, run: Logged, settings: LoggerSettings):
        runs = run.folder.parent.absolute()
        beside = f"sqlite:///{runs / 'mlflow.db'}"
        uri = settings.mlflow.uri or os.environ.get("MLFLOW_TRACKING_URI") or beside
        self.client = MlflowClient(uri)
        self.once = Once(run.folder, "mlflow")
        kept = run.folder / "mlflow.id"
        self.id = kept.read_text().strip() if kept.is_file() else ""
        if self.id:
            self.client.update_run(self.id, status="RUNNING")
        else:
            self.id = self._new(run, settings, runs if uri == beside else None)
            write_whole(kept, f"{self.id}\n")
        told = self.client.get_run(self.id).data.params  # not all, where a call has failed
        params = [Param(key, str(value)[:LONGEST]) for key, value in run.config.items() if key not in told]
        for start in range(0, len(params), AT_ONCE):
            self.client.log_batch(self.id, params=params[start : start + AT_ONCE])

    def _new(self, run: Logged, settings: LoggerSettings, beside: Path | None) -> str:
        """`beside`: the folder of the database's files, where that is the run's neighbour."""
        name = settings.mlflow.experiment
        if found := self.client.get_experiment_by_name(name):
            experiment = found.experiment_id
        else:  # the files of a database go into the folder that one is in, unless they are told where
            artifacts = (beside / "mlflow-artifacts").as_uri() if beside else None
            experiment = self.client.create_experiment(name, artifact_location=artifacts)
        return self.client.create_run(experiment, run_name=run.name).info.run_id

    def log(self, update: int, values: Mapping[str, float]) -> None:
        new, now = self.once.new(update, values), mlflow.utils.time.get_current_time_millis()
        self.client.log_batch(self.id, metrics=[Metric(_name(name), value, now, update) for name, value in new.items()])
        self.once.logged(update, new)

    def games(self, update: int, games: Sequence[Row]) -> None:
        """One table, which each evaluation adds rows to."""
        columns = {name: [getattr(row, name) for row in games] for name in Row._fields}
        table = {"held_out_games.json": {"update": [update] * len(games)} | columns}
        for name, rows in self.once.new(update, table).items():
            self.client.log_table(self.id, rows, name)
            self.once.logged(update, table)

    def report(self, page: Path) -> None:
        self.client.log_artifact(self.id, str(page))

    def end(self, summary: Mapping[str, Any]) -> None:
        try:
            self.log(int(summary.get("updates", 0)), result_of(summary))
            self.client.log_dict(self.id, dict(summary), "summary.json")
        finally:
            self.client.set_terminated(self.id, "FINISHED" if summary else "KILLED")


def _name(name: str) -> str:
    """MLflow takes letters, digits, and _-./ and spaces."""
    return "".join(each if each.isalnum() or each in "_-./ " else "_" for each in name)
