"""What a reward stream must not forget, in one folder of files that anybody can read.

    journal-G.jsonl  generation G: what was appended, one entry a line, its CRC-32 and then plain JSON
    snapshot-G/      all before generation G: the shaper's state.json and arrays.npz (see `storage`),
                     and stream.json, what else the stream knows
    version-N/       what came of a refit; the entry that publishes it names it
    service.json     whose state this is; another's is refused
    lock             held by the one process that writes here

    open -> (snapshot, entries)              where the process before this one left off
    append(entries)                          returns when they are on the disk
    keep(result) -> name, publish(name)      the result is on the disk before it is named
    rotate -> G, snapshot(G, state, stream)  a generation begins at once; what came before it is
                                             written whole at leisure, then its files go

To write over what a file has costs one write to the disk; to make it longer takes several, one after
the other, and threads of the kernel that wait for a CPU while a refit has them all. So a journal has
room before it is needed: zeros, which are no entries. The room of the next one is made beside the traffic.

The journal is the truth, and a snapshot a shorter way to it: what is read is the newest snapshot and
all journals from its generation on. So it does not matter when a snapshot is finished, or whether.

`keep` and `snapshot` may take their time in other threads. What they write is whole or absent: it is
written aside, forced to the disk and renamed. A process that dies while it appends leaves half a
line, the last one of the last journal: nobody was told that it was kept, and it is dropped. Any other
damage is an error.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

from reward_service.service.storage import read_state, write_json, write_state

log = logging.getLogger("parley.rewards")
LOCK_SECONDS = 30.0  # a process that was killed may take so long to go
CLOSE_SECONDS = 25.0  # for what other threads are writing
POLL_SECONDS = 0.1
ROOM, ROOM_AT_ONCE = 2**24, 2**18  # bytes of a journal, and of it between two appends of others
FULL = 0.9  # of its room
APPENDS = 4096  # the latest ones, whose seconds are known
SNAPSHOT, JOURNAL, VERSION = "snapshot", "journal", "version"
PART, LINES, STREAM, PUBLISHED = ".part", ".jsonl", "stream.json", "published"
SPARE = "journal.part"  # room for the next one

Snapshot = tuple[dict[str, Any], dict[str, Any]]  # the shaper's state, and the stream's


class JournalError(RuntimeError):
    """The folder cannot be used; the message names the file and says why."""


class Journal:
    def __init__(self, folder: Path, owner: dict[str, Any], room: int = ROOM):
        """`owner`: plain values that stay the same for as long as the folder is used. Those that an earlier version
        did not write down may be any."""
        self.folder, self.owner, self.room = folder, owner, room
        self.generation = self.end = 0  # that is appended to, and the length of its entries
        self.published: dict[int, int] = {}  # number of a result -> generation whose journal names it
        self.next_result = 1
        self.writing = threading.Lock()  # held by whoever writes a folder, one at a time
        self.file = self.held = None
        self.seconds: deque[float] = deque(maxlen=APPENDS)  # that the disk took for what was appended

    # What was left

    def open(self) -> tuple[Snapshot | None, list[Any]]:
        """The newest snapshot, if there is any, and the entries since."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock()
        self._check_owner()
        snapshots = self._numbers(SNAPSHOT)
        first = max(snapshots, default=0)
        snapshot = self._read_snapshot(first) if snapshots else None
        self.generation = max([first, *self._numbers(JOURNAL, LINES)])
        entries = [entry for number in range(first, self.generation + 1) for entry in self._entries(number, first)]
        self.next_result = max(self.published, default=0) + 1
        self._continue()
        for path in [*self.folder.glob(f"*{PART}"), *self.folder.glob(f"{VERSION}-*")]:
            if path.suffix == PART or _number(path) not in self.published:
                _remove(path)  # never finished, or never published
        self._forget_before(first)
        self._make_spare()
        return snapshot, entries

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
        for key, now in self.owner.items():
            if (was := found.get(key, now)) != now:
                raise JournalError(
                    f"{self.folder} keeps the state of a service with {key}={was}, not {now}: "
                    "give that, or another folder as reward.http.state"
                )

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number:06d}{LINES if kind == JOURNAL else ''}"

    def _numbers(self, kind: str, suffix: str = "") -> list[int]:
        return [_number(path) for path in self.folder.glob(f"{kind}-*") if path.suffix == suffix]

    def _read_snapshot(self, generation: int) -> Snapshot:
        folder = self._path(SNAPSHOT, generation)
        return _read(folder, lambda: (read_state(folder), json.loads((folder / STREAM).read_text(encoding="utf-8"))))

    def _entries(self, generation: int, first: int) -> list[Any]:
        path, entries, end = self._path(JOURNAL, generation), [], 0
        if not path.exists() and generation == self.generation == first:
            return []  # the first one, which is yet to be begun
        try:
            lines = path.read_bytes().rstrip(b"\0").splitlines(keepends=True)
        except FileNotFoundError:
            raise JournalError(f"{path} is missing") from None
        for number, line in enumerate(lines, start=1):
            try:
                entries.append(_entry(line))
            except ValueError as error:
                if number < len(lines) or generation < self.generation:
                    raise JournalError(f"{path} is damaged at line {number}: {error}") from error
                log.warning("%s: dropped line %d, the last one: only half of it was written", path, number)
                break
            end += len(line)
            if name := published(entries[-1]):
                self.published[_number(Path(name))] = generation
        self.end = end
        return entries

    def result(self, name: str) -> dict[str, Any]:
        """What was given to `keep`."""
        folder = self.folder / name
        return _read(folder, lambda: read_state(folder))

    # What is added

    def _continue(self) -> None:
        """With the last journal, after its last whole entry."""
        path = self._path(JOURNAL, self.generation)
        path.touch()
        self.file = path.open("r+b", buffering=0)
        self.file.truncate(self.end)
        _make_room(self.file, self.end, self.room)
        _force(path)
        _force(self.folder)

    def append(self, entries: Sequence[Any]) -> None:
        left = memoryview(b"".join(_line(entry) for entry in entries))
        end, began = self.end, time.monotonic()
        while left:
            written = os.pwrite(self.file.fileno(), left, end)
            left, end = left[written:], end + written
        os.fdatasync(self.file.fileno())
        self.end = end
        self.seconds.append(time.monotonic() - began)

    @property
    def full(self) -> bool:
        """Whether it is time to rotate. What does not fit is appended all the same."""
        return self.end > FULL * self.room

    def keep(self, result: dict[str, Any]) -> str:
        path = self._path(VERSION, self.next_result)
        self.next_result += 1
        with self._at_work():
            self._write(path, lambda part: write_state(part, result))
        return path.name

    def publish(self, name: str) -> None:
        self.append([{PUBLISHED: name}])
        self.published[_number(Path(name))] = self.generation

    def rotate(self) -> int:
        """The new generation's number. What is appended from now on is of it."""
        path, spare = self._path(JOURNAL, self.generation + 1), self.folder / SPARE
        if spare.exists():
            spare.rename(path)
        path.touch()
        _force(self.folder)
        self.file.close()
        self.file, self.generation, self.end = path.open("r+b", buffering=0), self.generation + 1, 0
        return self.generation

    def snapshot(self, generation: int, state: dict[str, Any], stream: dict[str, Any]) -> None:
        """As of when this generation began. Then what came before it goes."""

        def write(part: Path) -> None:
            write_state(part, state)
            write_json(part / STREAM, stream)

        with self._at_work():
            self._write(self._path(SNAPSHOT, generation), write)
            self._forget_before(generation)
            self._make_spare()

    def _make_spare(self) -> None:
        with (self.folder / SPARE).open("wb", buffering=0) as file:
            _make_room(file, 0, self.room)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self.writing:
            if self.held is None:
                raise JournalError(f"{self.folder} is closed")
            yield

    def _write(self, folder: Path, write: Callable[[Path], None]) -> None:
        part = folder.with_suffix(PART)
        _remove(part)
        part.mkdir()
        write(part)
        for path in (*part.iterdir(), part):
            _force(path)
        part.rename(folder)
        _force(self.folder)

    def _forget_before(self, generation: int) -> None:
        for kind, suffix in ((SNAPSHOT, ""), (JOURNAL, LINES)):
            for number in self._numbers(kind, suffix):
                if number < generation:
                    _remove(self._path(kind, number))
        for number in [number for number, named in list(self.published.items()) if named < generation]:
            _remove(self._path(VERSION, number))
            del self.published[number]

    def close(self) -> None:
        """Gives the folder to others, once nobody writes in it any more."""
        if self.file and not self.file.closed:
            with suppress(OSError):
                self.file.truncate(self.end)  # lines alone
            self.file.close()
        if not self.writing.acquire(timeout=CLOSE_SECONDS):
            log.error("%s stays locked: something is still written after %g s", self.folder, CLOSE_SECONDS)
            return
        if self.held:
            (self.folder / SPARE).unlink(missing_ok=True)
            self.held.close()  # which gives the lock back
        self.file = self.held = None
        self.writing.release()


def _make_room(file: BinaryIO, end: int, room: int) -> None:
    """A disk that is full has none; then there is less."""
    with suppress(OSError):
        for start in range(end, end + room, ROOM_AT_ONCE):
            os.pwrite(file.fileno(), bytes(min(ROOM_AT_ONCE, end + room - start)), start)
            os.fdatasync(file.fileno())


def published(entry: Any) -> str:
    """The name of the result that the entry publishes; empty for any other entry."""
    return entry[PUBLISHED] if isinstance(entry, dict) else ""


def _number(path: Path) -> int:
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


def _read(folder: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise JournalError(f"{folder} is damaged: {error}") from error


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _force(path: Path) -> None:
    """To the disk: a file's bytes, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
