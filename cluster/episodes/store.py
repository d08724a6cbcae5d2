"""The folder `episodes` of a run: Parquet files that are whole or not there.

    part-000000007-000000007.parquet   the games of update 7
    part-000000001-000000064.parquet   those of 64 updates, in place of 64 small files

A part is written under another name, forced to the disk, and renamed. One whose updates all lie within those of
another part is superseded: a merge writes the new part first and removes the old ones then, and whoever is killed in
between has lost nothing and doubled nothing. Nobody but the run's own process writes; everybody may read meanwhile.

Beyond `most_bytes` the oldest part goes, and its games are counted in `forgotten`; the newest always stays.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.episodes.columns import SCHEMA, whole
from cluster.errors import RunFolderError

MERGED = 64  # small neighbours that become one part
SMALL_BYTES = 2 * 2**20
GROUP_ROWS = 2048  # of a row group, which is read at once
LEVEL = 3  # of zstd
GROUP_BYTES = 64 * 2**20  # before compression
NAME = re.compile(r"part-(\d+)-(\d+)\.parquet")
FLOATS = ["logprobs", "credit"]  # hardly two are equal: their bytes compress better apart


class Part(NamedTuple):
    first: int  # update
    last: int
    path: Path

    def covers(self, other: Part) -> bool:
        return self.first <= other.first and other.last <= self.last


def parts_of(folder: Path) -> list[Part]:
    """In order, without those that are superseded."""
    return _split(folder)[0]


def _split(folder: Path) -> tuple[list[Part], list[Part]]:
    """The parts, and those that are superseded."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise RunFolderError(f"cannot read {folder}: {error.strerror}") from error
    found = [Part(int(m[1]), int(m[2]), folder / name) for name in names if (m := NAME.fullmatch(name))]
    whole: list[Part] = []
    superseded: list[Part] = []
    for part in sorted(found, key=lambda part: (part.first, -part.last)):
        (superseded if whole and whole[-1].covers(part) else whole).append(part)
    return whole, superseded


def opened(part: Part) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(part.path)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise damaged(part, error) from error


def damaged(part: Part, error: Exception) -> RunFolderError:
    return RunFolderError(
        f"{part.path} is damaged ({str(error)[:80]}): put it back, or move it away to read the other games"
    )


class EpisodeStore:
    def __init__(self, folder: Path, most_bytes: float):
        self.folder, self.most_bytes, self.forgotten = folder, most_bytes, 0
        with _writing(folder):
            folder.mkdir(exist_ok=True)
            parts, superseded = _split(folder)
            for path in [*folder.glob(".part-*"), *(part.path for part in superseded)]:
                path.unlink()
            self.parts = {part: part.path.stat().st_size for part in parts}  # in order, with their bytes

    @property
    def bytes(self) -> int:
        return sum(self.parts.values())

    def write(self, first: int, last: int, games: pa.Table) -> None:
        """All that these updates add: on the disk when this returns. A run that goes on from its last update, to be
        evaluated, adds to a part that is there."""
        wanted = Part(first, last, self.folder)
        there = next((part for part in self.parts if part.covers(wanted)), wanted)
        held = _in_groups([there]) if there in self.parts else iter(())
        self._add(there.first, there.last, chain(held, [games]))
        while self.bytes > self.most_bytes and len(self.parts) > 1:
            oldest = next(iter(self.parts))
            self.forgotten += opened(oldest).metadata.num_rows
            self._remove(oldest)

    def merge(self) -> bool:
        """Make one part of many small ones, where there are enough side by side; whether there were."""
        beside: list[Part] = []
        for part, size in self.parts.items():
            beside = [*beside, part] if size < SMALL_BYTES else []
            if len(beside) == MERGED:
                self._add(beside[0].first, part.last, _in_groups(beside))
                for each in beside:
                    self._remove(each)
                return True
        return False

    def cut_back(self, update: int, evaluated: Collection[int] | None = None) -> None:
        """Leave what was there after that update: a run goes on from it, and plays the others' games again.
        `evaluated`: the versions of the weights whose evaluations it knows; None: all. It may have ended here once,
        after an evaluation that it does not know and will repeat."""
        for part in reversed(list(self.parts)):
            if part.last < update or (part.last == update and evaluated is None):
                return
            if part.first <= update:
                self._add(part.first, update, _until(part, update, evaluated))
            if part.last > update:
                self._remove(part)

    def _add(self, first: int, last: int, tables: Iterator[pa.Table]) -> None:
        path = self.folder / f"part-{first:09d}-{last:09d}.parquet"
        write_games(path, tables)
        self.parts[Part(first, last, path)] = path.stat().st_size
        self.parts = dict(sorted(self.parts.items()))

    def _remove(self, part: Part) -> None:
        with _writing(part.path):
            part.path.unlink()
        del self.parts[part]


def write_games(path: Path, tables: Iterator[pa.Table]) -> int:
    """A whole file or none, on the disk when this returns; how many games are in it."""
    beside, games = path.with_name(f".{path.name}"), 0
    with _writing(path):
        with open(beside, "wb") as file:
            with pq.ParquetWriter(file, SCHEMA, **LAYOUT) as writer:
                for table in tables:
                    writer.write_table(table, row_group_size=GROUP_ROWS)
                    games += len(table)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _fsync(path.parent)
    return games


class _writing:
    """What a disk refuses, as one line."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            advice = "; make room, or set record.most_gib lower" if full else ""
            raise RunFolderError(f"cannot write {self.path}: {error.strerror or error}{advice}") from error


def _fsync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _layout() -> dict[str, Any]:
    """How Parquet lays them out; it knows columns by the paths of their leaves."""
    empty = pa.BufferOutputStream()
    pq.write_table(SCHEMA.empty_table(), empty)
    schema = pq.ParquetFile(empty.getvalue()).schema
    leaves = [schema.column(number).path for number in range(len(schema))]
    floats = [leaf for leaf in leaves if any(f".{name}." in leaf for name in FLOATS)]
    return {
        "compression": "zstd",
        "compression_level": LEVEL,
        "use_byte_stream_split": floats,
        "use_dictionary": [leaf for leaf in leaves if leaf not in floats],
    }


LAYOUT = _layout()


def _in_groups(parts: list[Part]) -> Iterator[pa.Table]:
    """Their games, so many at a time as one row group should have."""
    held: list[pa.Table] = []
    for part in parts:
        file = opened(part)
        for group in range(file.num_row_groups):
            held.append(whole(file.read_row_group(group, use_threads=False)))
            if sum(table.num_rows for table in held) >= GROUP_ROWS or sum(map(_bytes, held)) >= GROUP_BYTES:
                yield pa.concat_tables(held)
                held = []
    if held:
        yield pa.concat_tables(held)


def _bytes(table: pa.Table) -> int:
    return table.nbytes


def _until(part: Part, update: int, evaluated: Collection[int] | None) -> Iterator[pa.Table]:
    for table in _in_groups([part]):
        kept = pc.less_equal(table["update"], update)
        if evaluated is not None:
            known = pc.is_in(table["newest"], pa.array(evaluated, pa.int32()))
            kept = pc.and_(kept, pc.or_(pc.or_(pc.invert(table["held_out"]), pc.is_null(table["newest"])), known))
        yield table.filter(kept)
