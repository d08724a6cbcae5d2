"""A run's folder as Python sees it: rows for tables and plots, the policy's path, the result.

    run = parley.load_run("runs/demo-20260101-120000")
    pandas.DataFrame(run.metrics).plot("update", "rollout/outcome")
    run.episodes("outcome < .5").table().to_pandas()

Everything is read when it is first asked for, and nothing is changed: it works on a run that still goes on, whose
last line may be half written and is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cluster.errors import RunFolderError
from cluster.record import checkpoints
from cluster.record.run_folder import existing

if TYPE_CHECKING:
    from cluster.episodes.reader import Episodes


class Run:
    """What `train`, `resume`, `evaluate` and `load_run` return."""

    def __init__(self, folder: str | Path):
        self.folder: Path = existing(folder).resolve()

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved recipe, as nested dicts."""
        try:
            return yaml.safe_load(text_of(self.folder / "config.yaml"))
        except yaml.YAMLError as error:
            raise RunFolderError(f"{self.folder / 'config.yaml'} is damaged: {error}") from error

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One row an update, keys like "learner/loss"; rows of updates that were evaluated have "evaluation/..."."""
        return lines_of(self.folder / "metrics.jsonl", "row of metrics", _is_row)

    def episodes(self, where: str | None = None) -> Episodes:
        """The games that the run keeps, whole: all, or those for which an expression over their columns holds, such as
        "outcome < .5 and turns > 3 and text('elephant')"."""
        try:
            from cluster.episodes.reader import Episodes
        except ModuleNotFoundError as error:
            way = "pip install -e '.[cpu]' in Parley's folder"
            raise RunFolderError(f"the games of a run are read with {error.name}: {way}") from error

        return Episodes(self.folder / "episodes", where)

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """Some of the games that the run trained on, as rows; of an evaluation by trials every game."""
        name = "samples.jsonl" if (self.folder / "samples.jsonl").exists() else "episodes.jsonl"
        return lines_of(self.folder / name, "game", _is_row)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The result, as summary.json holds it; empty before the end."""
        return object_of(self.folder / "summary.json")

    @property
    def policy(self) -> Path | None:
        """The newest checkpoint's policy, a folder that transformers and vLLM load, or an adapter of PEFT; None where
        there is none."""
        newest = checkpoints.latest(self.folder / "checkpoints")
        return None if newest is None else newest / "policy"

    @property
    def score(self) -> float | None:
        """The mean outcome on held-out games, from 0 to 1, at the last evaluation; None where there was none, or
        where an evaluation has a score for each trial (`summary["trials"]`)."""
        for source in (*reversed(self.metrics), self.summary):  # a resumed run's summary is of the try before
            for key in ("evaluation/outcome", "outcome_after", "outcome"):
                if key in source:
                    return float(source[key])
        return None


def load_run(path: str | Path) -> Run:
    """The run or the evaluation in this folder, e.g. "runs/demo-20260101-120000"."""
    return Run(path)


def lines_of(path: Path, what: str, fits: Callable[[Any], bool]) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines, none where there is no file; a line that is no `what` is named."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(text_of(path).splitlines(keepends=True), start=1):
        if not line.endswith("\n"):
            break
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not fits(row):
            raise RunFolderError(f"{path} is damaged: line {number} is no {what}")
        found.append(row)
    return found


def object_of(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is no file."""
    try:
        found = json.loads(text_of(path)) if path.exists() else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RunFolderError(f"{path} is damaged: it holds no JSON object")
    return found


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"cannot read {path}: {error}") from error


def _is_row(row: Any) -> bool:
    return isinstance(row, dict)
