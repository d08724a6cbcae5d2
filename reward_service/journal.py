"""What a reward stream must not forget, in one folder of files that anybody can read.

    snapshot-G/      generation G at its start: the shaper's state.json and arrays.npz (see `storage`),
                     and stream.json, what else the stream knows
    journal-G.jsonl  what was appended since: one entry a line, its CRC-32 and then plain JSON
    service.json     whose state this is; another's is refused
    lock             held by the one process that writes here

    open -> (snapshot, entries)    where the process before this one left off
    append(entries)                returns when they are on the disk
    snapshot(state, stream)        all so far begins a generation, and leaves the journal

A snapshot is whole or absent: it is written aside, forced to the disk and renamed. Only after that
does the generation before it go. So at every moment the newest snapshot and the journal of its
generation are all that was ever appended. A process that dies while it appends leaves half a line, the
last one: nobody was told that it was kept, and it is dropped. Any other damage is an error.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from reward_service.storage import ARRAYS, STATE, read_state, write_state

log = logging.getLogger("parley.rewards")
LOCK_SECONDS = 30.0  # a process that was killed may take so long to go
POLL_SECONDS = 0.1
PART, LINES, STREAM = ".part", ".jsonl", "stream.json"

Snapshot = tuple[dict[str, Any], dict[str, Any]]  # the shaper's state, and the stream's


class JournalError(RuntimeError):
    """The folder cannot be used; the message names the file and says why."""


class Journal:
    def __init__(self, folder: Path, owner: dict[str, Any]):
        """`owner`: plain values that stay the same for as long as the folder is used."""
        self.folder, self.owner = folder, owner
        self.generation = 0
        self.file = self.held = None

    def open(self) -> tuple[Snapshot | None, list[Any]]:
        """The newest snapshot, if there is any, and the entries since."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock()
        self._check_owner()
        whole = [_generation(path) for path in self.folder.glob("snapshot-*") if path.suffix != PART]
        self.generation = max(whole, default=0)
        snapshot = self._read_snapshot() if whole else None
        self._begin()
        return snapshot, self._read_entries()

    def _lock(self) -> None:
        self.held = (self.folder / "lock").open("a")
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise JournalError(f"{self.folder} is in use by another process") from None
                time.sleep(POLL_SECONDS)

    def _check_owner(self) -> None:
        path = self.folder / "service.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            part = path.with_suffix(PART)
            part.write_text(json.dumps(self.owner, indent=1) + "\n", encoding="utf-8")
            part.rename(path)
            return
        except ValueError as error:
            raise JournalError(f"{path} is damaged: {error}") from error
        for key in sorted(self.owner.keys() | found.keys()):
            if (was := found.get(key)) != (now := self.owner.get(key)):
                raise JournalError(f"{self.folder} keeps the state of a service with {key}={was}, not {now}")

    def _path(self, kind: str) -> Path:
        return self.folder / f"{kind}-{self.generation:06d}"

    def _read_snapshot(self) -> Snapshot:
        folder = self._path("snapshot")
        try:
            return read_state(folder), json.loads((folder / STREAM).read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise JournalError(f"{folder} is damaged: {error}") from error

    def _begin(self) -> None:
        """The journal of this generation; what came before it goes."""
        if self.file:
            self.file.close()
        kept = {self._path("snapshot"), self._path("journal").with_suffix(LINES)}
        self.file = self._path("journal").with_suffix(LINES).open("ab", buffering=0)
        _force(self.folder)
        for path in [*self.folder.glob("snapshot-*"), *self.folder.glob("journal-*")]:
            if path not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _read_entries(self) -> list[Any]:
        path, entries, end = Path(self.file.name), [], 0
        lines = path.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            try:
                entries.append(_entry(line))
            except ValueError as error:
                if number < len(lines):
                    raise JournalError(f"{path} is damaged at line {number}: {error}") from error
                log.warning("%s: dropped line %d, the last one: only half of it was written", path, number)
                self.file.truncate(end)
                os.fsync(self.file.fileno())
                break
            end += len(line)
        return entries

    def append(self, entries: Sequence[Any]) -> None:
        left = memoryview(b"".join(_line(entry) for entry in entries))
        while left:
            left = left[self.file.write(left) :]
        os.fsync(self.file.fileno())

    def snapshot(self, state: dict[str, Any], stream: dict[str, Any]) -> None:
        self.generation += 1
        whole = self._path("snapshot")
        part = whole.with_suffix(PART)
        write_state(part, state)
        (part / STREAM).write_text(json.dumps(stream), encoding="utf-8")
        for path in (part / STATE, part / ARRAYS, part / STREAM, part):
            _force(path)
        part.rename(whole)
        self._begin()

    def close(self) -> None:
        for file in (self.file, self.held):
            if file:
                file.close()  # which gives the lock back
        self.file = self.held = None


def _generation(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _line(entry: Any) -> bytes:
    text = json.dumps(entry, allow_nan=False).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _entry(line: bytes) -> Any:
    crc, _, text = line.partition(b" ")
    if not line.endswith(b"\n"):
        raise ValueError("it has no end")
    if zlib.crc32(text[:-1]) != int(crc, 16):
        raise ValueError("its checksum is another")
    return json.loads(text)


def _force(path: Path) -> None:
    """To the disk: a file's bytes, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
