"""What was done in a work folder, with what, and whether it still holds.

A stage is done if it is recorded, its settings and what it read are as they were, and what it wrote is
whole. It is recorded after its files have their names, and forgotten before they are replaced, so a stop
at any moment leaves a stage that is done or one that is not: never one that only looks like it.

    manifest.json   stage -> {settings, reads: {name: content}, writes: {name: content}, figures, seconds}

Content is told by SHA-256; size and time of change spare reading a large file that nobody touched. What
a stage writes may be made again with the same bytes: later stages then still hold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from cluster.errors import RunFolderError
from cluster.record.run_folder import to_json, write_whole

MANIFEST = "manifest.json"
NOT_YET = "not done yet"


def content(path: Path) -> dict[str, Any]:
    """Of a file, or of a folder with all that is in it."""
    look = _look(path)
    return look | {"sha256": _sha256(path, look["changed"], look["bytes"])}


def _look(path: Path) -> dict[str, int]:
    """What can be told without reading."""
    stats = [each.stat() for each in _files(path)]
    return {
        "bytes": sum(stat.st_size for stat in stats),
        "changed": max((stat.st_mtime_ns for stat in stats), default=0),
        "files": len(stats),
    }


def _files(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


@lru_cache(maxsize=256)
def _sha256(path: Path, changed: int, size: int) -> str:
    """`changed` and `size` only say whether it was read before."""
    if not path.is_dir():
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    parts = [[str(each.relative_to(path)), _sha256(each, each.stat().st_mtime_ns, 0)] for each in _files(path)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def same_content(path: Path, recorded: Mapping[str, Any]) -> bool:
    if not path.exists():
        return False
    look = _look(path)
    if (look["files"], look["bytes"]) != (recorded["files"], recorded["bytes"]):
        return False
    return look["changed"] == recorded["changed"] or content(path)["sha256"] == recorded["sha256"]


class Manifest:
    """Of one iteration's folder."""

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / MANIFEST
        try:
            self.stages: dict[str, dict] = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self.stages = {}
        except (OSError, ValueError) as error:
            raise RunFolderError(
                f"{self.path} cannot be read ({error}); without it, every stage is done again"
            ) from error

    def figures(self, stage: str) -> dict[str, Any]:
        return self.stages.get(stage, {}).get("figures", {})

    def record(
        self,
        stage: str,
        settings: Mapping[str, Any],
        reads: Mapping[str, dict],
        writes: Mapping[str, Path],
        figures: Mapping[str, Any],
        seconds: float,
    ) -> None:
        self.stages[stage] = {
            "settings": dict(settings),
            "reads": dict(reads),
            "writes": {name: content(path) for name, path in writes.items()},
            "figures": dict(figures),
            "seconds": round(seconds, 3),
        }
        self._write()

    def forget(self, stage: str) -> None:
        if self.stages.pop(stage, None) is not None:
            self._write()

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, to_json(self.stages))

    def why_again(
        self, stage: str, settings: Mapping[str, Any], reads: Mapping[str, Path], writes: Mapping[str, Path]
    ) -> str | None:
        """Why a stage has to be done (again); None if it is done and holds."""
        done = self.stages.get(stage)
        if done is None:
            return NOT_YET
        before, now = done["settings"], json.loads(json.dumps(settings))
        for key in sorted({*before, *now}):
            if before.get(key, {}) != now.get(key, {}):  # with nothing in it a setting may be left out
                return f"{key} was {_short(before, key)}, is {_short(now, key)}"
        for name, path in reads.items():
            if name not in done["reads"] or not same_content(path, done["reads"][name]):
                return f"{name} is not the one that was read"
        for name, path in writes.items():
            if name not in done["writes"] or not same_content(path, done["writes"][name]):
                return f"{name} is {'not as it was written' if path.exists() else 'missing'}"
        return None


def _short(settings: Mapping[str, Any], key: str) -> str:
    text = json.dumps(settings[key]) if key in settings else "not set"
    return text if len(text) <= 60 else text[:57] + "..."
