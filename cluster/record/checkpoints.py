"""Checkpoints that are whole or not there.

    save:  write into .saving-N -> fsync everything -> manifest, last -> rename to update-N

A folder named update-N therefore has all its files; `latest` still checks them against the
manifest, because disks and people damage what was once complete. A save that fails or is
killed leaves the earlier checkpoints as they were; its leftovers go when the learners have
ended, or at the next start.

Inside: learner/ (DeepSpeed), policy/ (Hugging Face or PEFT format), state.json (ledger,
counters, shaper), manifest.json.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from cluster.errors import CheckpointError
from cluster.record.run_folder import write_whole

FORMAT = 1
MANIFEST = "manifest.json"
HASHED_BYTES = 64 * 2**20  # files up to this size are verified by content, larger ones by size
PROBE_BYTES = 2**20

log = logging.getLogger("parley")


class CheckpointStore:
    """The checkpoints of one run, owned by one process. Keeps the newest `keep` and the
    one with the best evaluation (`win_rate` in the metrics given to `save`)."""

    def __init__(self, folder: Path, keep: int):
        self.folder, self.keep, self.newest = Path(folder), keep, 0  # the newest that was saved here
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tidy()

    def tidy(self) -> None:
        """Removes what a save left that was killed or interrupted. It is for when nothing writes: learners that are
        still at work would go on filling a folder that is being removed."""
        for leftover in [*self.folder.glob(".saving-*"), *self.folder.glob(".dropping-*")]:
            shutil.rmtree(leftover, ignore_errors=True)

    @staticmethod
    def update_of(checkpoint: Path) -> int:
        return int(checkpoint.name.removeprefix("update-"))

    def save(self, update: int, writer: Callable[[Path], None], metrics: Mapping[str, float] | None = None) -> Path:
        """`writer` fills the folder it is given; when this returns, the checkpoint is on
        disk for good. Saving an update again replaces it."""
        saving = self.folder / f".saving-{update:06d}"
        target = self.folder / f"update-{update:06d}"
        try:
            shutil.rmtree(saving, ignore_errors=True)
            saving.mkdir()
            writer(saving)
            _write_manifest(saving, update, dict(metrics or {}))
            if target.exists():
                self._drop(target)
            os.rename(saving, target)
            _fsync(self.folder)
            self.newest = update
            self._prune(update)
        except Exception as error:
            if reason := _no_room(error, self.folder):
                raise CheckpointError(
                    f"no room to save checkpoint {target.name} in {self.folder} ({reason}); earlier checkpoints are "
                    "intact: make room, then `parley resume`"
                ) from error
            if isinstance(error, OSError):
                raise CheckpointError(f"cannot save checkpoint {target.name} in {self.folder}: {error}") from error
            raise
        finally:
            shutil.rmtree(saving, ignore_errors=True)
        log.info("saved %s", target)
        return target

    def rate(self, update: int, win_rate: float) -> None:
        """The evaluation of a checkpoint that was saved before that ended; of an update without one nothing happens."""
        checkpoint = self.folder / f"update-{update:06d}"
        manifest = _manifest(checkpoint)
        if manifest is not None:
            manifest["metrics"]["win_rate"] = win_rate
            write_whole(checkpoint / MANIFEST, json.dumps(manifest, indent=1))
            self._prune(self.newest)

    def latest(self) -> Path | None:
        return latest(self.folder)

    def _prune(self, newest: int) -> None:
        """Only whole checkpoints count as kept, so a damaged one never costs a good one its place: it goes when as many
        newer ones are whole. Those beyond the `newest` are of an earlier try, which could not be gone on with: they
        stay until this one has come as far."""
        found = [path for path in all_checkpoints(self.folder) if _manifest(path) is not None]
        found = [path for path in found if self.update_of(path) <= newest]
        whole = [path for path in found if damage_of(path, read=False) is None]
        last = whole[-self.keep :]
        kept = {*last, _best_of(whole)}
        for path in found:
            beaten = len(last) == self.keep and self.update_of(path) < self.update_of(last[0])
            if path not in kept and (beaten or path in whole):
                self._drop(path)

    def _drop(self, path: Path) -> None:
        """Renamed first: a kill in the middle leaves no half-deleted checkpoint by a good name."""
        dropping = path.with_name(f".dropping-{path.name}")
        os.rename(path, dropping)
        shutil.rmtree(dropping)


def all_checkpoints(folder: Path) -> list[Path]:
    """Oldest first, damaged ones included."""
    found = [path for path in folder.iterdir() if re.fullmatch(r"update-\d+", path.name)] if folder.is_dir() else []
    return sorted(found, key=CheckpointStore.update_of)


def latest(folder: Path) -> Path | None:
    """The newest checkpoint that is complete and verified; None if there is none. Only
    reads, so it may look into a run that another process is training."""
    for checkpoint in reversed(all_checkpoints(folder)):
        damage = damage_of(checkpoint)
        if damage is None:
            return checkpoint
        log.warning("skipping damaged checkpoint %s: %s", checkpoint, damage)
    return None


def best(folder: Path) -> Path | None:
    """The checkpoint with the highest win rate (the newest of equals), of those with one."""
    return _best_of(all_checkpoints(folder))


def _best_of(checkpoints: Sequence[Path]) -> Path | None:
    rated = [(rate, path) for path in checkpoints if (rate := _win_rate(path)) is not None]
    return max(rated)[1] if rated else None


def damage_of(checkpoint: Path, read: bool = True) -> str | None:
    """What is wrong with a checkpoint, or None. Not to `read` its files is quick, and sees only what is missing or too
    short."""
    manifest = _manifest(checkpoint)
    if manifest is None:
        return "it has no readable manifest"
    if manifest.get("format") != FORMAT:
        return f"its format is {manifest.get('format')}, this version reads {FORMAT}"
    for name, expected in manifest["files"].items():
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != expected["bytes"]:
            return f"{name} has {path.stat().st_size} bytes instead of {expected['bytes']}"
        if read and "sha256" in expected and _sha256(path) != expected["sha256"]:
            return f"{name} has other content than was saved"
    return None


def _write_manifest(folder: Path, update: int, metrics: dict[str, float]) -> None:
    files = {}
    for path in _files(folder):
        _fsync(path)
        size = path.stat().st_size
        files[str(path.relative_to(folder))] = {"bytes": size} | (
            {"sha256": _sha256(path)} if size <= HASHED_BYTES else {}
        )
    for inner in {folder, *(path.parent for path in _files(folder))}:
        _fsync(inner)
    manifest = {"format": FORMAT, "update": update, "metrics": metrics, "files": files}
    with open(folder / MANIFEST, "w", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=1))
        file.flush()
        os.fsync(file.fileno())
    _fsync(folder)


def _manifest(checkpoint: Path) -> dict | None:
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and isinstance(manifest.get("files"), dict) else None


def _win_rate(checkpoint: Path) -> float | None:
    manifest = _manifest(checkpoint)
    return None if manifest is None else manifest["metrics"].get("win_rate")


def _no_room(error: BaseException | None, folder: Path) -> str | None:
    """Why a save ran out of room, if that is what happened. The error may come from another
    process (wrapped, its `cause` inside) or from a library that does not pass the reason on
    (torch.save does not); then the disk itself is asked, while the partial files still fill it."""
    while error is not None:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return os.strerror(error.errno)
        if os.strerror(errno.ENOSPC) in str(error):
            return os.strerror(errno.ENOSPC)
        error = getattr(error, "cause", None) or error.__cause__
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
    except OSError as refusal:
        return refusal.strerror
    return None


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    """Onto the disk: a file's content, or a folder's list of names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
