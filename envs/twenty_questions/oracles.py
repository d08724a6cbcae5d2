"""The oracle of a table, as the table says or as told."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from envs.twenty_questions.oracle import Oracle
from envs.twenty_questions.reading.free import FreeOracle
from envs.twenty_questions.reading.nearest import NearestOracle
from envs.twenty_questions.table import Table, read_table, table_path

READINGS: dict[str, type[Oracle]] = {"plain": Oracle, "free": FreeOracle, "nearest": NearestOracle}


def oracle_for(table: str, reading: str | None = None) -> Oracle:
    """The oracle that reads a table, by name or path, as the table says or as told: made once
    in a process, and again if the file changes."""
    path = table_path(table)
    return _oracle(path, path.stat().st_mtime_ns, reading)


@lru_cache(maxsize=16)
def _oracle(path: Path, modified: int, reading: str | None) -> Oracle:
    table = _table(path, modified)
    return READINGS[reading or table.reading](table)


@lru_cache(maxsize=8)
def _table(path: Path, _modified: int) -> Table:
    return read_table(path)
