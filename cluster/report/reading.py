"""What a run folder holds, read whole and changed nowhere; also of a run that still goes on.

A last line without its end is being written, and is left for the next report. Anything else
that cannot be read is one clear line that names the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from cluster.errors import RunFolderError
from cluster.recipe.config import RunConfig
from cluster.record import checkpoints
from cluster.record.run import lines_of, object_of
from cluster.record.run_folder import existing, read_config
from reward_service.service.storage import read_state

SAMPLE = ("game", "number", "players", "kind", "outcome", "terminated", "facts", "closing", "turns")


@dataclass(frozen=True, slots=True)
class Run:
    path: Path
    config: RunConfig
    rows: list[dict[str, Any]]  # of metrics.jsonl
    samples: list[dict[str, Any]]  # of samples.jsonl
    versions: dict[str, Any]
    summary: dict[str, Any]  # of a run that has ended
    intentions: dict[str, Any] | None  # a shaper's state with a space of intentions in it

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def trained(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if "rollout/outcome" in row]

    @property
    def evaluated(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if "evaluation/win_rate" in row]


def read_run(folder: str | Path, spaces: bool = True) -> Run:
    """`spaces`: with the newest checkpoint's, which is verified whole before it is read."""
    path = existing(folder).resolve()
    config = read_config(path, to_read=True)
    rows = lines_of(path / "metrics.jsonl", "update", _recorded)
    if not rows:
        raise RunFolderError(f"{path} has nothing to report yet: its metrics.jsonl holds no line")
    return Run(
        path=path,
        config=config,
        rows=rows,
        samples=lines_of(path / "samples.jsonl", "sampled game", _sampled),
        versions=object_of(path / "versions.json"),
        summary=object_of(path / "summary.json"),
        intentions=_intentions(checkpoints.latest(path / "checkpoints")) if spaces else None,
    )


def _recorded(row: Any) -> bool:
    return isinstance(row, dict) and isinstance(row.get("update"), int)


def _sampled(row: Any) -> bool:
    return _recorded(row) and set(SAMPLE) <= set(row) and all({"seat", "heard", "said"} <= set(t) for t in row["turns"])


def _intentions(checkpoint: Path | None) -> dict[str, Any] | None:
    """Of the newest whole checkpoint; None where its shaper has no space of intentions (yet)."""
    if checkpoint is None or not (checkpoint / "rewards").is_dir():
        return None
    try:
        state = read_state(checkpoint / "rewards")
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise RunFolderError(f"cannot read the rewards of {checkpoint}: {error}") from error
    return next((each for each in _within(state) if {"space", "gists", "embeddings", "window"} <= set(each)), None)


def _within(state: Any) -> list[dict[str, Any]]:
    """The objects in it, outermost first: a shaper may hold another one's state in its own."""
    if not isinstance(state, dict):
        return []
    return [state, *(inner for value in state.values() for inner in _within(value))]
