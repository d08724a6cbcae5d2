"""The games of a run, as they lie in its folder: read when they are asked for, also while the run goes on.

    games = parley.load_run("runs/NAME").episodes("outcome < .5 and text('elephant')")
    len(games)                                    how many
    for game in games: game["dialogue"][0]        each as a dict, with its turns
    games.first(10, by="-surprise")               the most surprising
    games.table(["update", "outcome"])            columns of all of them, as an Arrow table
    games.to_parquet("lost.parquet")              a file for other programs

Every question looks at the folder anew. A part that was merged with others since is found in the merged one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.episodes.columns import GAME, PLAIN, SCHEMA, whole
from cluster.episodes.store import Part, damaged, opened, parts_of, write_games
from cluster.episodes.where import conditions
from cluster.errors import ConfigError, RunFolderError

AT_ONCE = 64  # games that are made Python objects together


class Place(NamedTuple):
    """Games of one row group of a part."""

    part: Part
    group: int
    rows: np.ndarray  # int64
    order: pa.ChunkedArray | None  # their values in the column that is sorted by
    file: pq.ParquetFile | None = None  # while it is open

    def read(self, columns: Sequence[str]) -> pa.Table:
        file = self.file or opened(self.part)
        return _read(self.part, file, self.group, columns).take(self.rows)


class Episodes:
    def __init__(self, folder: Path, where: str | None = None):
        self.folder, self.where, self.conditions = Path(folder), where, conditions(where)
        if not self.folder.is_dir():
            raise RunFolderError(
                f"{self.folder.parent} keeps no games: its record.episodes is none, or it was made by a version "
                "without a store; some of those that it trained on are in Run.samples"
            )

    def __repr__(self) -> str:
        return f"Episodes({str(self.folder)!r}{f', {self.where!r}' if self.where else ''})"

    def __len__(self) -> int:
        return sum(len(place.rows) for place in self._places())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for table in self.batches():
            yield from _games(table)

    def batches(self, columns: Sequence[str] = tuple(SCHEMA.names)) -> Iterator[pa.Table]:
        """Some games at a time, in the order of their updates."""
        _check(columns)
        for place in self._places():
            if len(place.rows):
                yield place.read(columns)

    def table(self, columns: Sequence[str] = PLAIN) -> pa.Table:
        """All at once; without the turns, where no columns are named."""
        return pa.concat_tables([_schema(columns).empty_table(), *self.batches(columns)])

    def to_parquet(self, path: str | Path) -> int:
        """How many games it wrote."""
        return write_games(Path(path), self.batches())

    def first(self, count: int, by: str | None = None) -> list[dict[str, Any]]:
        """So many games; `by`: in the order of a column, "-column" begins with the highest. A game without a value
        comes last."""
        if count < 0:
            raise ConfigError(f"first({count}): how many games has to be 0 or more")
        return list(islice(self, count)) if by is None else self.page(0, count, by)[1]

    def page(
        self, skip: int, count: int, by: str, columns: Sequence[str] = tuple(SCHEMA.names)
    ) -> tuple[int, list[dict[str, Any]]]:
        """How many games there are, and so many of them after the first `skip` in the order of a column."""
        _check([by.removeprefix("-")], PLAIN)
        try:
            return self._page(skip, count, by, columns)
        except FileNotFoundError:  # a part was merged between two looks at it
            return self._page(skip, count, by, columns)

    def _page(self, skip: int, count: int, by: str, columns: Sequence[str]) -> tuple[int, list[dict[str, Any]]]:
        column, descending = by.removeprefix("-"), by.startswith("-")
        places, values = [], []
        for place in self._places(column):
            if len(place.rows):
                values += place.order.chunks
                places.append(place._replace(order=None, file=None))  # no process may hold as many files as there are
        if not places:
            return 0, []
        whole = pa.chunked_array(values)
        order = [(column, "descending" if descending else "ascending", "at_end")]
        chosen = pc.sort_indices(pa.table({column: whole}), order)[skip : skip + count]
        return len(whole), _at(places, chosen.to_numpy().astype(np.int64), columns)

    def _places(self, order: str | None = None) -> Iterator[Place]:
        """The single values of a part are read at once, its turns by row groups."""
        plain = [condition for condition in self.conditions if not condition.in_turns]
        for listed in parts_of(self.folder):
            part, file = self._opened(listed)
            columns = {column for condition in plain for column in condition.columns}
            games = _read(part, file, None, sorted(columns | {"update"} | {order or "update"}))
            kept = [condition.holds(games) for condition in plain]
            if part != listed:
                updates = games["update"].to_numpy()
                kept.append((listed.first <= updates) & (updates <= listed.last))
            chosen, first = np.flatnonzero(np.all([np.ones(len(games), bool), *kept], axis=0)), 0
            for group in range(file.num_row_groups):
                end = first + file.metadata.row_group(group).num_rows
                rows = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, end)] - first
                rows = self._by_turns(part, file, group, rows)
                yield Place(part, group, rows, order and games[order].slice(first).take(rows), file)
                first = end

    def _opened(self, part: Part) -> tuple[Part, pq.ParquetFile]:
        """A part that was merged since it was listed is those updates of another."""
        try:
            return part, opened(part)
        except FileNotFoundError:
            merged = next((other for other in parts_of(self.folder) if other.covers(part)), None)
        if merged is None:
            raise RunFolderError(
                f"{part.path} was removed while it was read: the run went back to a checkpoint, or reached "
                "record.most_gib; read it again"
            )
        return merged, opened(merged)

    def _by_turns(self, part: Part, file: pq.ParquetFile, group: int, rows: np.ndarray) -> np.ndarray:
        """Those of these rows of a row group for which the conditions hold that look into the turns."""
        asked = [condition for condition in self.conditions if condition.in_turns]
        if asked and len(rows):
            games = _read(part, file, group, sorted({column for condition in asked for column in condition.columns}))
            rows = rows[np.all([condition.holds(games)[rows] for condition in asked], axis=0)]
        return rows


def _read(part: Part, file: pq.ParquetFile, group: int | None, columns: Sequence[str]) -> pa.Table:
    """A row group, or all."""
    try:
        if group is None:
            return whole(file.read(columns=list(columns), use_threads=False), columns)
        return whole(file.read_row_group(group, columns=list(columns), use_threads=False), columns)
    except (OSError, pa.ArrowException) as error:
        raise damaged(part, error) from error


def _schema(columns: Sequence[str]) -> pa.Schema:
    _check(columns)
    return pa.schema([SCHEMA.field(name) for name in columns])


def _check(columns: Sequence[str], known: Sequence[str] = tuple(column.name for column in GAME)) -> None:
    for name in columns:
        if name not in known:
            raise ConfigError(f"games have no column {name!r}; there are: {', '.join(known)}")


def _games(table: pa.Table) -> Iterator[dict[str, Any]]:
    for start in range(0, len(table), AT_ONCE):
        yield from table.slice(start, AT_ONCE).to_pylist(maps_as_pydicts="strict")


def _at(places: Sequence[Place], chosen: np.ndarray, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The games with these numbers, counted through all places, in that order."""
    ends = np.cumsum([len(place.rows) for place in places])
    which = np.searchsorted(ends, chosen, side="right")
    found: dict[int, dict[str, Any]] = {}
    for number in np.unique(which):
        place, wanted = places[number], chosen[which == number]
        rows = place.rows[wanted - (ends[number] - len(place.rows))]
        table = place._replace(rows=rows).read(columns)
        found |= zip(wanted.tolist(), _games(table), strict=True)
    return [found[number] for number in chosen.tolist()]
