"""A run that was stopped before its first checkpoint begins again, in its own folder.

What it had made until then goes. So a folder that holds more than such a run can have made is refused.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from cluster.errors import RunFolderError
from cluster.record.ending import object_in
from cluster.record.run_folder import RunFolder, read_config


def check_begins_again(folder: RunFolder) -> None:
    """`folder` has no checkpoint, and its config.yaml is that of the try that was stopped."""
    path, told = folder.path, object_in(folder.path / "summary.json")
    if any(path.glob("iteration-*")):
        raise RunFolderError(f"{path} is an offline run: parley offline run {path}")
    end = told.pop("end", None)
    if not folder.metrics.exists() and (told or (end and not end.get("go_on"))):
        raise RunFolderError(f"{path} holds an evaluation, which is no run to go on with")
    last, every = _last_update(folder.metrics), read_config(path, to_read=True).checkpoint.every
    if told or last > every:
        has = "the summary of a run that ended" if told else f"{last} updates"
        raise RunFolderError(
            f"{path} has {has} and no checkpoint: put one back into {folder.checkpoints}, or begin another run: "
            f"parley train {path}/config.yaml"
        )


def begin_again(folder: RunFolder) -> None:
    """Nothing stays of the first try, except what it was asked and the policy it starts from."""
    for file in (folder.metrics, folder.samples):
        file.unlink(missing_ok=True)
    shutil.rmtree(folder.games, ignore_errors=True)
    for each in (folder.transcripts, folder.tensorboard):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir()


def _last_update(metrics: Path) -> int:
    """The last one that is told of; a line that a kill cut in half tells of none."""
    if not metrics.exists():
        return 0
    lines = metrics.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in reversed(lines):
        try:
            return int(json.loads(line)["update"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0
