"""`parley episodes`: games found, shown and exported, whatever their players said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.commands.cli import main
from cluster.episodes.columns import PLAIN, SCHEMA, Kept
from cluster.episodes.shown import harmless
from envs.episode import Episode
from tests.cluster.test_episode_store import game, policy_turn, stored

EVIL = "<script>alert(1)</script>[bold red]\x1b[2J\x1b]0;owned\x07\u202egnp\r\x9b31m\0"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.yaml").write_text("name: x\n")
    games = [game(n, 1, turns=n, outcome=n / 8) for n in range(1, 5)]
    ticket = replace(games[0].ticket, number=9)
    turn = policy_turn(EVIL, 3)
    turn.observation = turn.caption = EVIL
    evil = Episode(ticket, [turn], {"buyer": 0.0}, False, {"buyer": EVIL}, facts={EVIL: EVIL})
    failed = Kept(replace(ticket, number=10), 2, failure="timeout")
    stored(folder / "episodes", games, [Kept(ticket, 2, evil, held_out=True), failed])
    return folder


def parley(capsys, *words: str | Path) -> tuple[int, str, str]:
    code = main(["episodes", *map(str, words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_games_are_listed_in_an_order(run_folder, capsys):
    code, out, _ = parley(capsys, run_folder, "--where", "outcome < .5 and turns > 1", "--sort", "outcome")
    rows = [line.split() for line in out.splitlines() if "trained" in line]
    assert code == 0 and [row[1] for row in rows] == ["3", "2"] and rows[0][-2:] == ["hello", "2"]
    assert out.splitlines()[-1] == "2 shown of 2 that were found, of 6 games"
    _, out, _ = parley(capsys, run_folder, "--sort", "turns", "--reverse", "--limit", "2")
    assert [line.split()[1] for line in out.splitlines() if "buyer" in line] == ["10", "1"]
    assert "timeout" in out and out.splitlines()[-1].startswith("2 shown of 6")
    assert parley(capsys, run_folder, "--where", "turns > 99")[1] == "0 shown of 0 that were found, of 6 games\n"


def test_a_game_is_shown_with_its_credit_and_no_terminal_obeys_it(run_folder, capsys):
    _, out, _ = parley(capsys, run_folder, "--where", "turns == 2", "--show")
    assert "    before hello 1\nbuyer> hello 1    (reward +0.25; credit -0.5; intention 6; weights 4)\n" in out
    assert "=== parrot, update 1, ticket 2, seed 1002 (training, outcome 0.25, surprise 0.188, credit 0.5)\n" in out
    assert "--- ended after 2 turns; outcome: buyer 0.25, seller 0\n" in out
    for words in (["--show"], []):
        _, out, _ = parley(capsys, run_folder, "--where", "number >= 9", *words)
        assert all(each.isprintable() or each == "\n" for each in out)
        assert "<script>" in out and "[bold red]\\x1b[2J\\x1b]0;owned\\x07\\u202egnp" in out
    assert harmless(EVIL).endswith("\\r\\x9b31m\\x00") and harmless("a\nb\ud800é") == "a\nb\\ud800é"


def test_games_as_json_and_as_a_file(run_folder, capsys, tmp_path):
    _, out, _ = parley(capsys, run_folder, "--json", "--sort", "outcome")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["number"] for line in lines[:2]] == [4, 3] and list(lines[0]) == list(PLAIN)
    assert (lines[-1]["failure"], lines[-1]["outcome"]) == ("timeout", None)
    _, out, _ = parley(capsys, run_folder, "--json", "--show", "--where", "held_out")
    assert out.isascii() and "\x1b" not in out
    assert json.loads(out)["dialogue"][0]["utterance"] == EVIL and json.loads(out)["facts"] == {EVIL: EVIL}
    code, out, _ = parley(capsys, run_folder, "--where", "turns > 2", "--to", tmp_path / "some.parquet")
    assert (code, out) == (0, f"2 games in {tmp_path / 'some.parquet'}\n")
    assert pq.read_table(tmp_path / "some.parquet").schema.equals(SCHEMA)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--where", "outcom > 1"], 2, "outcom is no column, did you mean outcome?"),
        (["--sort", "dialogue"], 2, "games have no column 'dialogue'; there are: update, "),
        (["--reverse"], 2, "--reverse is for --sort"),
        (["--to", "x.parquet", "--limit", "3"], 2, "--to writes every game that --where finds"),
        (["--to", "x.csv"], 2, "--to=x.csv writes Parquet: give it a name that ends in .parquet"),
        (["--to", "/nowhere/x.parquet"], 1, "cannot write /nowhere/x.parquet: No such file or directory"),
    ],
)
def test_what_is_wrong_is_one_line(run_folder, capsys, words, code, said):
    found, out, err = parley(capsys, run_folder, *words)
    assert (found, out) == (code, "") and err.startswith(f"parley: {said}") and len(err) < 320 and err.count("\n") == 1


def test_a_run_without_a_store_is_one_line(tmp_path, capsys):
    (tmp_path / "config.yaml").write_text("name: x\n")
    code, _, err = parley(capsys, tmp_path)
    assert (
        code == 1 and "keeps no games: its record.episodes is none, or it was made by a version without a store" in err
    )
    assert parley(capsys, tmp_path / "none")[2].startswith("parley: no run folder at")
