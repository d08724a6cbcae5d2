"""What the benchmark of kept games compares is the same games, and its cost of a run is that of pairs of blocks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from benchmarks.episodes import BLOCK, SKIPPED, Parquet, Sqlite, asked, batches, compared, filled
from benchmarks.episodes_killed import written_game
from cluster.episodes.columns import table_of


@pytest.fixture(scope="module")
def games() -> pa.Table:
    return table_of([written_game(number, 1) for number in range(20)])


def test_both_stores_hold_the_same_games(games, tmp_path):
    numbers = [number for batch in batches(games, 300, 128) for number in batch["number"].to_pylist()]
    assert numbers == list(range(300))
    found = {}
    for kind in (Parquet, Sqlite):
        store = kind(tmp_path / kind.__name__)
        found[kind] = filled(store, games, 300)
        assert found[kind]["bytes_turn"] > 0 and store.open()[1] == 300
    many = [asked(kind(tmp_path / f"many {kind.__name__}"), games, 300)["found"] for kind in (Parquet, Sqlite)]
    assert many[0] == many[1] == 0, "all outcomes are 1"
    assert list(batches(games, 9, 128))[0]["dialogue"][0].as_py()[0]["utterance"].startswith("said")


def test_the_cost_is_that_of_updates_whose_block_has_begun_before():
    lines = []
    for update in range(1, 4 * BLOCK + 1):
        kept, first = (update - 1) // BLOCK % 2 == 0, (update - 1) % BLOCK < SKIPPED
        line = {"update": update, "seconds/update": 99.0 if first else 1.1 if kept else 1.0}
        lines.append(line | {"record/seconds": 0.4})
    cost = compared(lines)
    assert cost["more_time"] == pytest.approx(0.1) and cost["more_time_interval"] == pytest.approx(0)
    assert cost["update_seconds"] == 1.0 and cost["thread_seconds"] == pytest.approx(0.4 / (2 * BLOCK))
