"""The games of a run as the page asks for them: a table by condition and order, and one game whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pyarrow as pa
from pyarrow import csv
from tokenizers import Tokenizer

from cluster.episodes.columns import GAME, PLAIN, SCHEMA
from cluster.episodes.reader import Episodes
from cluster.errors import ConfigError
from cluster.report.words import pieces, words

AT_ONCE = 500  # rows of the table that are sent
SHOWN = (  # columns of the table, in this order
    *("update", "number", "game", "seat", "outcome", "reward", "turns", "tokens", "surprise", "credit"),
    *("staleness", "seconds", "worker", "attempt", "held_out", "failure"),
)
MEANINGS = {column.name: column.meaning for column in GAME if column.name in SHOWN}


def table(games: Episodes, by: str, skip: int, count: int) -> dict[str, Any]:
    """So many rows after the first `skip`, in the order of a column ("-outcome": the highest first)."""
    if not 0 < count <= AT_ONCE or skip < 0:
        raise ConfigError(f"rows {skip} to {skip + count} cannot be sent; at most {AT_ONCE} at once")
    total, rows = games.page(skip, count, by, [*SHOWN, "newest"])
    return {
        "total": total,
        "skip": skip,
        "columns": SHOWN,
        "rows": [[finite(row[name]) for name in (*SHOWN, "newest")] for row in rows],  # the last tells games apart
    }


def lines(games: Episodes) -> Iterator[bytes]:
    """All of them as CSV, without their turns."""
    schema = pa.schema([SCHEMA.field(name) for name in PLAIN])
    yield csv_of(schema.empty_table(), header=True)
    for part in games.batches(PLAIN):
        yield csv_of(part, header=False)


def csv_of(table: pa.Table, header: bool) -> bytes:
    written = BytesIO()
    csv.write_csv(table, written, csv.WriteOptions(include_header=header))
    return written.getvalue()


def one(games: Episodes, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The game that the condition of `games` leaves, whole; with the text of its tokens, where there is a tokenizer."""
    found = games.first(1)
    if not found:
        raise ConfigError("there is no such game: it may have been forgotten (record.most_gib)")
    for turn in found[0]["dialogue"] if tokenizer else ():
        turn |= {"pieces": pieces(tokenizer, turn["utterance_ids"]), "words": words(turn, tokenizer)}
    return finite(found[0])


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value


assert set(SHOWN) <= set(PLAIN) <= set(SCHEMA.names)
