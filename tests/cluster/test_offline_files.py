"""The published shapes: what is read, what is refused and in which words, and that what is written is read back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.commands.cli import main
from cluster.offline.examples import games_of, rows_of
from cluster.offline.files import FileRefused, GameFileReader, Record, Sides, reward_scale_of
from cluster.offline.recording import record_of, training_rows
from envs.episode import Episode, Ticket, Turn, TurnTokens
from envs.game import money_of
from envs.registry import make_game, make_player
from tests.support.offline_games import QUESTIONS, ROOT, lone, offline, pair, rows, write

TWO = Sides("negotiation", ("alice", "bob"))
ONE = Sides("twenty_questions", ("guesser",), "the rules", "what is it?")


def read(path, sides=TWO, scale="outcome") -> list[Record]:
    return list(GameFileReader(path, sides, scale).records())


def refusal(path, sides=TWO, scale="outcome") -> str:
    with pytest.raises(FileRefused) as caught:
        read(path, sides, scale)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2
    return str(caught.value).replace(str(path), "FILE")


def test_two_players_take_their_turns_by_their_numbers(tmp_path):
    """As published: turn numbers may be text, fields of others stay, the last action may go unanswered."""
    record = pair(["$175?", "$150?", "I sell to John."], ["$120?", "$130?"], 0.5, mood=["calm"])
    record |= {"alice_ids": ["b_7_0", "b_7_2", "b_7_4"], "bob_ids": ["b_7_1", "b_7_3"]}
    (found,) = read(write(tmp_path / "f.jsonl", [record]))
    turns = [(turn.seat, turn.observation, turn.utterance) for turn in found.episode.turns]
    assert turns == [
        ("alice", "", "$175?"),
        ("bob", "$175?", "$120?"),
        ("alice", "$120?", "$150?"),
        ("bob", "$150?", "$130?"),
        ("alice", "$130?", "I sell to John."),
    ]
    assert found.briefings == {"alice": "You are Alice.", "bob": "You are Bob."}
    assert found.episode.outcome == {"alice": 0.5, "bob": 0.5} and found.raw["mood"] == ["calm"]
    (again,) = read(write(tmp_path / "g.jsonl", [record | {"bob_ids": [3, 5], "alice_ids": [0, 1, 4]}]))
    assert [turn.seat for turn in again.episode.turns] == ["alice", "alice", "bob", "alice", "bob"]
    assert again.episode.turns[2].observation == "$175?\n$150?", "all that was said since is heard"


def test_a_lone_player_hears_the_answer_to_each_action(tmp_path):
    whole = lone("12", "yn", 1.0)
    for record in (whole, {k: v for k, v in whole.items() if k != "next_observations"}, whole | {"obs": ["?"]}):
        (found,) = read(write(tmp_path / "f.jsonl", [record]), ONE, "minus_one")
        assert [turn.observation for turn in found.episode.turns] == ["what is it?", "Yes."]
        assert found.closing == "No." and found.episode.outcome == {"guesser": 1.0}
    (cut,) = read(write(tmp_path / "f.jsonl", [lone("12", "y", 0.0)]), ONE, "minus_one")
    assert cut.closing is None and cut.episode.outcome == {"guesser": 0.0}


def test_blank_lines_between_games_are_no_games(tmp_path):
    plain = write(tmp_path / "plain.jsonl", (lone("0123", "ynyy", number % 2) for number in range(8)))
    spaced = tmp_path / "spaced.jsonl"
    spaced.write_text("\n" + plain.read_text().replace("\n", "\n\n", 5))
    for file in (plain, spaced):
        assert offline(QUESTIONS, file, tmp_path / file.stem) == 0
    assert rows(tmp_path / "spaced") == rows(tmp_path / "plain") != []


def test_which_reward_is_a_win_is_read_off_the_file_or_has_to_be_said(tmp_path):
    file = tmp_path / "f.jsonl"
    assert reward_scale_of(write(file, [lone("1", "y", 1.0), lone("1", "y", 0.0)])) == "minus_one"
    assert reward_scale_of(write(file, [lone("1", "y", 1.0), lone("1", "y", 1.0, reward=1)])) == "outcome"
    with pytest.raises(FileRefused, match="every reward is 0, which may be won or lost: give offline.reward_scale"):
        reward_scale_of(write(file, [lone("1", "y", 1.0)]))
    for nothing, said in (([], "FILE holds no game"), ([{"a": 1}], "FILE, line 1: alice_actions: is missing")):
        scale = reward_scale_of(write(file, nothing))
        assert refusal(file, ONE, scale).startswith(said)
    write(file, [lone("1", "y", 0.0), lone("1", "y", 0.0, reward=1)])
    assert refusal(file, ONE, "minus_one") == (
        "FILE, line 2: reward: should be from -1 (lost) to 0 (won) in this file, not 1"
    )


WRONG = [
    ({"alice_actions": None}, "line 1: alice_actions: should be a list, not NoneType"),
    ({"alice_actions": ["a", 3]}, "line 1: alice_actions[1]: should be text, not 3"),
    ({"bob_reward": "1"}, "line 1: bob_reward: should be a number, not '1'"),
    ({"bob_reward": True}, "line 1: bob_reward: should be a number, not True"),
    ({"bob_reward": float("nan")}, "line 1: bob_reward: should be a number, not nan"),
    ({"bob_reward": 10**400}, "line 1: bob_reward: should be a number, not a number of more than 40 digits"),
    ({"bob_actions": ["\ud800"]}, "line 1: bob_actions[0]: should be text, not '\\ud800'"),
    ({"bob_tokens": [[[2**40], []]]}, "line 1: bob_tokens[0]: should be two lists of token ids"),
    ({"seed": 2**80}, "line 1: seed: should be a whole number of at most 63 bits, not 1208925819614629174706176"),
    ({"alice_reward": 2}, "line 1: alice_reward: should be from 0 (lost) to 1 (won), not 2"),
    ({"alice_ids": [0]}, "line 1: alice_ids: has 1 entries for 2 actions"),
    ({"alice_ids": [2, 0]}, "line 1: alice_ids[1]: turn 0 comes after turn 2"),
    ({"alice_ids": [0, 1]}, "line 1: bob_ids: turn 1 is there twice"),
    ({"alice_ids": [0, "x"]}, "line 1: alice_ids[1]: should be the number of a turn, not 'x'"),
    ({"player_1_system_prompt": 1}, "line 1: player_1_system_prompt: should be text, not 1"),
    ({"bob_tokens": [[1, 2]]}, "line 1: bob_tokens[0]: should be two lists of token ids"),
    ({"alice_embeddings": [[1.0]]}, "line 1: alice_embeddings: has 1 entries for 2 utterances"),
]


@pytest.mark.parametrize(("change", "words"), WRONG, ids=[words.split(": ", 1)[1][:40] for _, words in WRONG])
def test_what_is_wrong_is_one_line_with_file_line_and_field(tmp_path, change, words):
    assert refusal(write(tmp_path / "f.jsonl", [pair(["a", "c"], ["b"], 1.0) | change])) == f"FILE, {words}"


@pytest.mark.parametrize("field", ["alice_actions", "bob_actions", "bob_ids", "alice_reward", "player_2_system_prompt"])
def test_a_missing_field_is_named(tmp_path, field):
    record = pair(["a"], ["b"], 1.0)
    file = write(tmp_path / "f.jsonl", [record, {name: value for name, value in record.items() if name != field}])
    assert refusal(file) == f"FILE, line 2: {field}: is missing"


def test_a_file_that_is_cut_off_or_of_another_game_is_refused(tmp_path):
    file = write(tmp_path / "f.jsonl", [pair(["a"], ["b"], 1.0)] * 2)
    text = file.read_text()
    file.write_text(text[:-40])
    assert refusal(file).startswith("FILE, line 2: not JSON") and refusal(file).endswith("the file is cut off in it")
    file.write_bytes(text.encode()[:-1] + b"\n\xff\n")
    assert refusal(file) == "FILE, line 3: not JSON (not UTF-8 text)"
    file.write_bytes(b"[" * 10**5 + b"]" * 10**5 + b"\n")
    assert refusal(file) == "FILE, line 1: not JSON (brackets inside brackets, too many of them)"
    file.write_bytes(b'{"reward": 1' + b"0" * 5000 + b"}\n")
    assert refusal(file) == "FILE, line 1: not JSON (a number of too many digits)"
    file.write_text("[1]\n")
    assert refusal(file) == "FILE, line 1: should be a JSON object, not list"
    file.write_text("\n")
    assert refusal(file) == "FILE holds no game"
    assert refusal(write(file, [lone("1", "y", 1.0)])).startswith("FILE, line 1: actions: a game for one player")
    assert refusal(write(file, [{"x": 1}])).startswith("FILE, line 1: alice_actions: is missing")


def test_a_refused_file_leaves_nothing_half_written(tmp_path, capsys):
    file = write(tmp_path / "f.jsonl", [lone("1", "y", 0.0), lone("1", "y", 0.0) | {"actions": [1]}])
    words = ["--input", str(file), "--folder", str(tmp_path / "work"), "--until", "embed"]
    assert main(["offline", "run", *QUESTIONS, *words]) == 2
    assert f"parley: {file}, line 2: actions[0]: should be text, not 1" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "work" / "iteration-1").iterdir()] == [".unfinished"]


@settings(max_examples=60, deadline=None)
@given(
    field=st.sampled_from(sorted(pair(["a"], ["b"], 1.0))),
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=5,
    ),
)
def test_any_value_anywhere_is_read_or_refused_by_name(tmp_path_factory, field, value):
    file = write(tmp_path_factory.mktemp("fuzz") / "f.jsonl", [pair(["a", "c"], ["b"], 1.0) | {field: value}])
    try:
        (found,) = read(file)
    except FileRefused as refused:
        assert str(refused).startswith(f"{file}, line 1: ")
    else:
        assert found.episode.turns


@pytest.mark.parametrize("game", ["negotiation", "twenty_questions"])
def test_the_examples_are_of_the_published_shapes(game):
    made = make_game(game)
    file = ROOT / "docs" / "examples" / "offline" / f"{game}_msgs.jsonl"
    scale = reward_scale_of(file)
    records = read(file, Sides(game, made.seats), scale)
    assert len(records) >= 12 and scale == ("outcome" if len(made.seats) == 2 else "minus_one")
    assert {outcome for record in records for outcome in record.episode.outcome.values()} >= {0.0, 1.0}


# What is written here


def played(game: str, seed: int, player: str = "mediocre") -> Episode:
    """One game between scripted players, with made-up tokens."""
    made = make_game(game, {"rounds": 6} if game != "twenty_questions" else {})
    made.reset(seed)
    players = {seat: make_player(game, player) for seat in made.seats}
    for each in players.values():
        each.reset(seed)
    turns = []
    while (seat := made.seat) is not None:
        shown = made.observe()
        said = players[seat].reply(shown, ())
        made.step(said)
        tokens = (np.array(each) for each in ([len(turns)], [7, seed], [0.0, 0.0], [0, 0]))
        turns.append(Turn(seat, "policy", shown, said, tokens=TurnTokens(*tokens)))
    ticket = Ticket("run", game, seed, seed, tuple((seat, "policy") for seat in made.seats))
    return Episode(ticket, turns, made.outcome(), True, made.closing(), facts=made.facts(), money=money_of(made))


@pytest.mark.parametrize("game", ["bargaining", "negotiation", "twenty_questions"])
def test_games_played_here_are_read_back_turn_by_turn(tmp_path, game):
    made = make_game(game, {"rounds": 6} if game != "twenty_questions" else {})
    episodes = [played(game, seed) for seed in range(5)]
    file = write(tmp_path / "f.jsonl", [record_of(episode, made, "0123456789abcdef") for episode in episodes])
    sides = Sides(game, made.seats)
    for episode, record in zip(episodes, read(file, sides, "minus_one"), strict=True):
        assert record.episode.outcome == episode.outcome
        for one, other in zip(episode.turns, record.episode.turns, strict=True):
            assert (one.seat, one.observation, one.utterance) == (other.seat, other.observation, other.utterance)
        for seat in made.seats:
            tokens = [turn.tokens for turn in episode.turns_of(seat)]
            assert record.tokens[seat] == [
                [each.observation_ids.tolist(), each.utterance_ids.tolist()] for each in tokens
            ]
    raw = json.loads(file.read_text().splitlines()[0])
    if len(made.seats) == 2:
        published = pair([], [], 0.0)
        assert published.keys() <= raw.keys() and sorted(raw["alice_ids"] + raw["bob_ids"]) == list(
            range(len(episodes[0].turns))
        )
        assert raw["alice_gain"] == episodes[0].money["alice"] == float(episodes[0].facts["money_alice"])
    else:
        assert raw["reward"] in (-1.0, 0.0) and len(raw["obs"]) == len(raw["actions"])


def test_the_stakes_are_those_of_the_game_that_was_played():
    episode = played("negotiation", 6)  # configuration 6: values 1 and 1.2 times a list price of 100
    record = record_of(episode, make_game("negotiation", {"rounds": 6}), "")
    assert (record["product_price_order"], record["seller_value"], record["buyer_value"]) == (100, 1.0, 1.2)
    record = record_of(played("bargaining", 6), make_game("bargaining", {"rounds": 6}), "")
    assert (record["seller_value"], record["buyer_value"]) == (0.9, 0.95), "what is left of the money in each round"


# Training sets


def test_a_training_set_is_read_however_it_is_laid_out(tmp_path):
    entries = [{"observation": "o" * n, "action": f"a{n}", "reward": n / 7} for n in range(200)]
    for layout in ({"indent": 4}, {}, {"separators": (",", ":")}):
        path = tmp_path / "t.json"
        path.write_text(json.dumps(entries, **layout))
        assert [row for _, row in rows_of(path)] == entries
    path.write_text("[]")
    assert list(rows_of(path)) == []


def row(reward: str) -> str:
    """A training set of one entry; whatever follows the reward is more of it."""
    return f'[{{"observation": "o", "action": "a", "reward": {reward}}}]'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}', ": should be a JSON list of entries"),
        ("", ": should be a JSON list of entries"),
        ('[{"observation": "o", "action": "a"}]', ", entry 1: reward: is missing"),
        ('[{"observation": "o", "action": "a", "reward": NaN}]', ", entry 1: reward: should be a number, not nan"),
        ('[{"observation": "o", "action": 1, "reward": 0}]', ", entry 1: action: should be text, not 1"),
        ('[{"observation": "o", "action": "a", "reward": 0}, {"obs', ", entry 2: the file is cut off in it"),
        ('[{"observation": "o", "action": "a", "reward": 0}', ", entry 2: the file is cut off in it"),
        ("[3]", ", entry 1: should be a JSON object, not int"),
        ("[" * 10**5, ", entry 1: not JSON (brackets inside brackets, too many of them)"),
        (row("1" + "0" * 400), ", entry 1: reward: should be a number, not a number of more than 40 digits"),
        (row("1" + "0" * 5000), ", entry 1: not JSON (a number of too many digits)"),
        (row('0, "briefing": "\\udfff"'), ", entry 1: briefing: should be text, not '\\udfff'"),
        (
            row(f'0, "tokens": [[{2**40}], []]'),
            f", entry 1: tokens: should be two lists of token ids, not [[{2**40}], []]",
        ),
        ('[{"observation": oops, "action": "a", "reward": 0}' + " " * 99, ", entry 1: not JSON (Expecting value)"),
    ],
)
def test_a_wrong_training_set_is_refused_by_entry_and_field(tmp_path, text, words):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(FileRefused) as caught:
        list(rows_of(path))
    assert str(caught.value) == f"{path}{words}"


def test_rows_of_one_seats_game_are_one_sequence_and_others_stand_alone(tmp_path):
    (record,) = read(write(tmp_path / "f.jsonl", [pair(["a", "c"], ["b", "d"], 1.0)]))
    rows = list(training_rows(record, {"alice": [0.1, 0.2], "bob": [0.3, 0.4]}))
    foreign = {"observation": "o", "action": "x", "reward": 1.0}
    games = list(games_of(enumerate([*rows, foreign, foreign, rows[1]], 1)))
    assert [[row["action"] for row in game] for game in games] == [["a", "c"], ["b", "d"], ["x"], ["x"], ["c"]]
    twice = list(games_of(enumerate([rows[0], rows[0]], 1)))
    assert [[row["seen"] for row in game] for game in twice] == [[""], [""]], "a game begins anew with its first turn"
    assert games[0][0]["briefing"] == "You are Alice." and "seen" not in games[4][0], "its beginning is not there"
