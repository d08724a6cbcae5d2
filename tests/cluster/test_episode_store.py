"""The store of all games: what goes in comes out, once, whatever ends the writer, and expressions find it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import cluster.episodes.store as store_module
from benchmarks.episodes_killed import kill_at_random
from cluster.episodes.columns import PLAIN, SCHEMA, Kept, table_of
from cluster.episodes.reader import Episodes
from cluster.episodes.shown import conversation
from cluster.episodes.store import EpisodeStore, parts_of
from cluster.errors import ConfigError, ParleyError, RunFolderError
from envs.episode import Choice, Episode, Ticket, Turn, TurnTokens
from reward_service.shaper import ShapedRewards

GIB = 2**30
SEATS = (("buyer", "policy"), ("seller", "scripted:fair"))


def policy_turn(said: str, count: int, **changes) -> Turn:
    ids = np.arange(count, dtype=np.int32)
    tokens = TurnTokens(ids + 100, ids, -(ids + 1) / np.float32(8), np.full(count, 4, np.int32), **changes)
    return Turn("buyer", "policy", f"before {said}", said, reward=0.25, tokens=tokens, times=(1.0, 1.5, 2.0))


def game(number: int, update: int = 7, turns: int = 1, said: str = "hello", outcome: float = 1.0) -> Kept:
    ticket = Ticket("run", "parrot", number, 1000 + number, SEATS)
    spoken = [policy_turn(f"{said} {turn}", 2) for turn in range(turns)]
    episode = Episode(ticket, spoken, {"buyer": outcome, "seller": 0.0}, True, seconds=3.0)
    shaped = ShapedRewards(number, "buyer", np.linspace(0, 1, turns, dtype=np.float32), 3, labels=np.arange(turns) + 5)
    credit = {"buyer": np.full(2 * turns, -0.5, np.float32)}
    return Kept(ticket, update, episode, worker=2, ended=9.0, shaped={"buyer": shaped}, credit=credit)


def stored(folder: Path, *updates: list[Kept], most_bytes: float = GIB) -> EpisodeStore:
    store = EpisodeStore(folder, most_bytes)
    for games in updates:
        store.write(games[0].update, games[0].update, table_of(games))
    return store


# --- columns --------------------------------------------------------------------------------------


def test_a_game_comes_back_whole(tmp_path):
    ticket = Ticket("run", "haggle", 12, 345, SEATS, attempt=1)
    choice = Choice(np.arange(6, dtype=np.int32), np.array([3, 3], np.int32), np.ones(2), 1)
    turns = [
        policy_turn("four words in all", 4, finish="length"),
        Turn("seller", "scripted:fair", "heard", "no", executable=False, reward=-1.0, caption="he refused"),
        policy_turn("", 0),
        policy_turn("<script>\x1b[31m\ud800", 3, choice=choice),
    ]
    turns[3].actions = ("stay", "go")
    episode = Episode(
        ticket, turns, {"buyer": 0.5, "seller": 1.0}, False, {"buyer": "next"}, facts={"price": "7"}, seconds=2.5,
        money={"buyer": 3.0},
    )  # fmt: skip
    shaped = ShapedRewards(
        12, "buyer", np.array([0.1, 0.2, 0.3], np.float32), 6, "advantage", labels=np.array([8, 9, 8])
    )
    credit = {"buyer": np.array([1, -2, 3, -4, 5], np.float32)}
    stored(tmp_path, [Kept(ticket, 9, episode, worker=1, shaped={"buyer": shaped}, credit=credit)])
    (row,) = Episodes(tmp_path)
    assert (row["update"], row["number"], row["attempt"], row["seed"], row["game"]) == (9, 12, 1, 345, "haggle")
    assert (row["held_out"], row["failure"], row["cut_off"], row["seat"], row["worker"]) == (
        False,
        None,
        True,
        "buyer",
        1,
    )
    assert (row["outcome"], row["reward"], row["turns"], row["tokens"], row["staleness"]) == (0.5, 0.75, 4, 7, 4)
    assert row["credit"] == 3.0 and row["surprise"] == pytest.approx((1 + 2 + 3 + 4 + 1) / 8 / 5)
    assert row["facts"] == {"price": "7"} and row["closing"] == {"buyer": "next"}
    buyer, seller = row["seats"]
    assert (buyer["kind"], buyer["space"], buyer["money"], seller["outcome"]) == ("advantage", 6, 3.0, 1.0)
    first, second, third, last = row["dialogue"]
    for found, turn in ((first, turns[0]), (third, turns[2]), (last, turns[3])):
        for name in ("observation_ids", "utterance_ids", "logprobs", "versions"):
            assert found[name] == getattr(turn.tokens, name).tolist(), name
    assert (first["credit"], third["credit"], last["credit"]) == ([1, -2, 3, -4], [], [5, 0, 0]), (
        "of a choice the first"
    )
    assert [turn["label"] for turn in row["dialogue"]] == [8, None, 9, 8]
    assert [turn["shaped"] for turn in (first, last)] == [np.float32(0.1), np.float32(0.3)]
    assert (first["finish"], first["asked"], first["answered"], first["played"]) == ("length", 1.0, 1.5, 2.0)
    assert (second["executable"], second["caption"], second["logprobs"], second["finish"]) == (
        False,
        "he refused",
        [],
        None,
    )
    assert (last["actions"], last["chosen"], last["utterance"]) == (["stay", "go"], 1, "<script>\x1b[31m?")


def test_a_failure_an_enormous_episode_and_one_without_turns_are_kept(tmp_path):
    ticket = Ticket("run", "parrot", 3, 4, SEATS)
    silent = Kept(ticket, 1, Episode(ticket, [], {"buyer": 0.0, "seller": 0.0}, False), held_out=True)
    failed = Kept(ticket, 1, failure="game_error:KeyError", tokens=17, worker=4)
    long = Kept(ticket, 1, Episode(ticket, [policy_turn("x " * 100_000, 100_000)], {"buyer": 1.0}, True))
    stored(tmp_path, [failed, silent, long])
    first, second, third = Episodes(tmp_path)
    assert (first["failure"], first["tokens"], first["outcome"], first["dialogue"]) == (failed.failure, 17, None, [])
    assert (second["held_out"], second["turns"], second["surprise"], second["newest"]) == (True, 0, None, None)
    assert third["tokens"] == 100_000 == len(third["dialogue"][0]["logprobs"]) and third["staleness"] is not None


def test_games_of_an_older_version_lack_a_column(tmp_path, small_merges):
    ticket = Ticket("run", "parrot", 3, 4, SEATS)
    for update in range(1, 4):
        stored(tmp_path, [Kept(ticket, update, failure="timeout", why="old")])
    for part in parts_of(tmp_path):
        pq.write_table(pq.read_table(part.path).drop_columns(["why"]), part.path)
    assert [row["why"] for row in Episodes(tmp_path, "failure == 'timeout' and why is None")] == [None] * 3
    assert numbers(tmp_path, "text('x') or why is None") == [3, 3, 3] and numbers(tmp_path, "why == 'x'") == []
    stored(tmp_path, [Kept(ticket, 4, failure="timeout", why="new")])
    store = EpisodeStore(tmp_path, math.inf)
    assert store.merge() and len(store.parts) == 1
    assert [(row["update"], row["why"]) for row in Episodes(tmp_path)] == [(1, None), (2, None), (3, None), (4, "new")]
    assert "    new" in conversation(Episodes(tmp_path, "update == 4").first(1)[0]).split("\n")


# --- the store ------------------------------------------------------------------------------------


@pytest.fixture
def small_merges(monkeypatch):
    monkeypatch.setattr(store_module, "MERGED", 4)


def numbers(folder: Path, where: str | None = None) -> list[int]:
    return [row["number"] for row in Episodes(folder, where)]


def spans(folder: Path) -> list[tuple[int, int]]:
    return [(part.first, part.last) for part in parts_of(folder)]


def test_merging_and_cutting_back_leave_each_game_once_and_in_order(tmp_path, small_merges):
    store = stored(tmp_path, *([game(10 * update + n, update) for n in range(3)] for update in range(1, 7)))
    everything = [10 * update + n for update in range(1, 7) for n in range(3)]
    assert store.merge() and not store.merge()
    assert spans(tmp_path) == [(1, 4), (5, 5), (6, 6)] and numbers(tmp_path) == everything
    assert store.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    store.cut_back(3)
    assert spans(tmp_path) == [(1, 3)] and numbers(tmp_path) == everything[:9]
    store.write(4, 4, table_of([game(40, 4)]))
    assert numbers(tmp_path) == [*everything[:9], 40]
    store.write(3, 3, table_of([game(39, 3)]))  # a run that goes on from update 3 only to be evaluated
    store.write(4, 4, table_of([game(49, 4)]))
    assert numbers(tmp_path) == [*everything[:9], 39, 40, 49] and spans(tmp_path) == [(1, 3), (4, 4)]
    store.cut_back(0)
    assert list(tmp_path.iterdir()) == [] and store.bytes == 0


def test_what_a_killed_writer_left_is_neither_read_nor_kept(tmp_path, small_merges):
    store = stored(tmp_path, *([game(update, update)] for update in range(1, 5)))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert store.merge()
    for path, content in before.items():  # killed before they were removed
        path.write_bytes(content)
    (tmp_path / ".part-000000005-000000005.parquet").write_bytes(b"PAR1 half")
    assert numbers(tmp_path) == [1, 2, 3, 4]
    assert spans(tmp_path) == [(1, 4)] and len(list(tmp_path.iterdir())) == 6
    again = EpisodeStore(tmp_path, GIB)
    assert len(list(tmp_path.iterdir())) == 1 and again.bytes == store.bytes


def test_a_part_that_is_merged_while_it_is_read_is_found_in_the_merged_one(tmp_path, small_merges, monkeypatch):
    store = stored(tmp_path, *([game(update, update)] for update in range(1, 5)))
    reading = iter(Episodes(tmp_path, "turns == 1"))
    assert next(reading)["number"] == 1
    assert store.merge()
    assert [row["number"] for row in reading] == [2, 3, 4]
    stored(tmp_path, *([game(update, update)] for update in range(5, 8)))
    look, merges = Episodes._places, []

    def looking(games, order=None):
        yield from look(games, order)
        merges.append(EpisodeStore(tmp_path, GIB).merge())

    monkeypatch.setattr(Episodes, "_places", looking)
    assert [row["number"] for row in Episodes(tmp_path).first(3, by="-number")] == [7, 6, 5]
    monkeypatch.undo()
    assert merges == [True, False]
    stored(tmp_path, [game(8, 8)], [game(9, 9)])
    reading = iter(Episodes(tmp_path))
    next(reading)
    EpisodeStore(tmp_path, GIB).cut_back(8)
    with pytest.raises(RunFolderError, match="was removed while it was read"):
        list(reading)


def test_the_oldest_games_go_when_the_store_is_full(tmp_path):
    one = stored(tmp_path / "one", [game(1, 1)]).bytes
    store = stored(tmp_path / "all", *([game(update, update)] for update in range(1, 9)), most_bytes=3.5 * one)
    assert numbers(tmp_path / "all") == [6, 7, 8] and store.forgotten == 5 and store.bytes <= 3.5 * one
    assert numbers(tmp_path / "all") == numbers(tmp_path / "all", "update > 5")
    stored(tmp_path / "tiny", [game(1, 1)], [game(2, 2)], most_bytes=1)
    assert numbers(tmp_path / "tiny") == [2], "the newest stays"


def test_what_cannot_be_read_or_written_is_one_line(tmp_path):
    store = stored(tmp_path / "episodes", [game(1, 1)], [game(2, 2)])
    path = parts_of(tmp_path / "episodes")[0].path
    for content in (path.read_bytes()[:-100], b"", b"<html>" * 100):
        path.write_bytes(content)
        with pytest.raises(RunFolderError, match=r"part-000000001-000000001\.parquet is damaged") as error:
            numbers(tmp_path / "episodes")
        assert len(str(error.value)) < 300
    with pytest.raises(RunFolderError, match=r"keeps no games: its record\.episodes is none, or it was made by"):
        Episodes(tmp_path / "older" / "episodes")
    (tmp_path / "episodes" / ".part-000000003-000000003.parquet").mkdir()
    with pytest.raises(RunFolderError, match="cannot write .*part-000000003-000000003.parquet: Is a directory$"):
        store.write(3, 3, table_of([game(3, 3)]))
    if Path("/dev/full").exists():
        (tmp_path / "episodes" / ".part-000000004-000000004.parquet").symlink_to("/dev/full")
        with pytest.raises(RunFolderError, match=r"No space left on device; make room, or set record\.most_gib lower"):
            store.write(4, 4, table_of([game(4, 4)]))


def test_kill_9_while_writing_leaves_each_consumed_game_once(tmp_path):
    found = kill_at_random(tmp_path, times=8)
    assert (found["kills"], found["lost"], found["doubled"]) == (8, 0, 0) and found["consumed"] > 20


# --- expressions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def games(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("games")
    ticket = Ticket("run", "haggle", 90, 1, (("seller", "policy"),))
    failed = Kept(ticket, 2, failure="timeout", tokens=3)
    other = replace(ticket, number=91)
    first = [game(n, 1, turns=n, outcome=n / 8, said="Elephant" if n % 2 else "a 100% cat") for n in range(1, 9)]
    stored(folder, first, [failed, Kept(other, 2, game(91, 2, said="ELEPHANTS (.*)").episode, held_out=True)])
    return folder


ALL = [1, 2, 3, 4, 5, 6, 7, 8, 90, 91]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("outcome < .5 and turns > 1 and text('elephant')", [3]),
        ("text('eLePHant')", [1, 3, 5, 7, 91]),
        ("not text('elephant') and not failure == 'timeout'", [2, 4, 6, 8]),
        ("said('(.*)') or said('100%')", [2, 4, 6, 8, 91]),
        ("said('before')", []),
        ("text('before')", [1, 2, 3, 4, 5, 6, 7, 8, 91]),
        ("intention(8)", [4, 5, 6, 7, 8]),
        ("not outcome >= .5", [1, 2, 3, 90, 91]),
        ("failure is None and not held_out", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("failure != None", [90]),
        ("failure == 'timeout'", [90]),
        ("'ime' in failure", [90]),
        ("seat in ('seller', 'nobody') or number in [2]", [2, 90, 91]),
        ("seat not in ('buyer',)", [90, 91]),
        ("2 < turns <= 4", [3, 4]),
        ("-turns + 2 * number / 2 == 0 and turns * 1 - 0 > 6", [7, 8]),
        ("turns / 0 > 1e300", [1, 2, 3, 4, 5, 6, 7, 8, 91]),
        ("held_out == True or turns == 9223372036854775807", [91]),
        ("True", ALL),
        ("1 > 2", []),
        ("game > 'i' and cut_off != True and failure != 'x'", [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_an_expression_finds_its_games(games, where, found):
    assert numbers(games, where) == found
    assert len(Episodes(games, where)) == len(found)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("outcom < 1", "'?outcom is no column, did you mean outcome"),
        ("dialogue == 'x'", "dialogue is a list"),
        ("outcome < 'x'", "cannot compare a number with a text"),
        ("outcome", "is a number, where a condition should stand"),
        ("outcome < 1 and turns", "is a number, where a condition"),
        ("not turns", "is a number, where true or false"),
        ("turns in (1, 'x')", "looks for a number in a list of something else"),
        ("1 in turns", "cannot compare a number with a number"),
        ("seat in game", "cannot compare a text with a text in this way"),
        ("failure < None", "cannot compare a text with None"),
        ("__import__('os').system('true')", "has no meaning here"),
        ("open('x')", "has no meaning here"),
        ("text(seat)", "has no meaning here"),
        ("text('a', 'b')", "has no meaning here"),
        ("text(b'a')", "has no meaning here"),
        ("intention(True)", "has no meaning here"),
        ("(lambda: 1)() == 1", "has no meaning here"),
        ("[x for x in turns]", "has no meaning here"),
        ("turns ** 99999 > 1", "has no meaning here"),
        ("f'{turns}' == '1'", "has no meaning here"),
        ("turns == 9223372036854775808", "is no number, text"),
        ("outcome <", "is no expression"),
        ("", "is no expression"),
        ("turns > 1; 2", "is no expression"),
        ("turns\0 > 1", "is no expression"),
        ("-" * 1500 + "1 > 2", "too much stands within each other"),
        ("(" * 900 + "1" + ")" * 900, "is no expression"),
        ("turns > " + "1" * 3000, "at most 2000 characters"),
    ],
)
def test_anything_else_is_refused_in_one_line(games, where, said):
    with pytest.raises(ConfigError, match=said) as error:
        Episodes(games, where)
    assert len(str(error.value)) <= 300 and "\n" not in str(error.value)


def test_every_single_valued_column_can_be_asked(games):
    for name in PLAIN:
        assert len(Episodes(games, f"{name} is None or {name} == {name}")) == len(ALL), name


# --- reading --------------------------------------------------------------------------------------


def test_games_as_a_table_in_an_order_and_as_a_file(games, tmp_path):
    some = Episodes(games, "number < 90")
    table = some.table(["number", "outcome"])
    assert table.column_names == ["number", "outcome"] and table["number"].to_pylist() == list(range(1, 9))
    assert [row["number"] for row in some.first(3, by="-turns")] == [8, 7, 6]
    assert [row["number"] for row in some.first(2, by="outcome")] == [1, 2]
    assert [row["failure"] for row in Episodes(games).first(20, by="-failure")] == ["timeout", *[None] * 9]
    assert len(some.first(3)) == 3 and Episodes(games, "number == 1000").first(3, by="seat") == []
    assert Episodes(games, "number == 1000").table().column_names == list(PLAIN)
    assert some.to_parquet(tmp_path / "some.parquet") == 8
    back = pq.read_table(tmp_path / "some.parquet")
    assert back.schema.equals(SCHEMA) and back.to_pylist() == some.table(SCHEMA.names).to_pylist()
    for wrong in (lambda: some.table(["nmber"]), lambda: some.first(1, by="dialogue")):
        with pytest.raises(ParleyError, match="games have no column"):
            wrong()
    with pytest.raises(RunFolderError, match="cannot write"):
        some.to_parquet(tmp_path / "no" / "folder.parquet")


def test_a_part_of_many_row_groups_is_read_where_its_rows_are(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "GROUP_ROWS", 4)
    store = stored(tmp_path, [game(n, 1, turns=n % 3, outcome=n / 10) for n in range(10)])
    assert pq.ParquetFile(next(iter(store.parts)).path).num_row_groups == 3
    assert numbers(tmp_path) == list(range(10)) and numbers(tmp_path, "turns == 2 and text('hello')") == [2, 5, 8]
    assert [row["number"] for row in Episodes(tmp_path, "turns == 2").first(2, by="-outcome")] == [8, 5]
    assert math.isclose(sum(Episodes(tmp_path).table()["outcome"].to_pylist()), 4.5)


def test_a_run_lets_the_system_keep_the_memory_of_arrow():
    """Arrow's own takes more with every update, whatever is freed."""
    program = "import cluster.run.loop, pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    around = {name: value for name, value in os.environ.items() if not name.startswith("ARROW_")}
    asked = {"env": around, "capture_output": True, "text": True, "timeout": 120, "check": True}
    done = subprocess.run([sys.executable, "-c", program], **asked)
    assert done.stdout.strip() == "system"
