"""Twenty Questions read by the nearest of known questions: what it may answer, and what it must leave alone."""

from __future__ import annotations

import json
import lzma
import re

import numpy as np
import pytest

from envs.registry import make_game
from envs.text import nearest
from envs.text.embedding import LocalEncoder
from envs.twenty_questions.reading.nearest import NearestOracle
from tests.support.full_table import TABLE as FULL_TABLE

TABLE = """
reading = "free"
[attributes.alive]
ask = ["is it alive?"]
keywords = ["alive"]
[attributes.flies]
ask = ["can it fly?"]
keywords = ["fly"]
[attributes.music]
ask = ["does it make music?"]
keywords = ["music"]
[objects]
sparrow = ["alive", "flies"]
cow = ["alive"]
kite = ["flies"]
piano = ["music"]
"""
ASKED = {
    "alive": ["Does it have a pulse?", "Would it starve without food?", "Is there breath in the thing?"],
    "flies": ["Does it move about high above our heads?", "Would you see it up among the clouds?"],
    "music": ["Could you perform a tune with the object?", "Is it heard at a concert?"],
}
OPTIONS = {"turns": 9, "oracle": "nearest"}


@pytest.fixture
def oracle(tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path / "kept"))
    (tmp_path / "mine.toml").write_text(TABLE)
    (tmp_path / "mine").mkdir()
    lines = [json.dumps({"f": fact, "q": questions}) for fact, questions in ASKED.items()]
    (tmp_path / "mine" / "asked.jsonl.xz").write_bytes(lzma.compress("\n".join(lines).encode()))
    return make_game("twenty_questions", {"table": str(tmp_path / "mine.toml"), **OPTIONS}).oracle


def replies(oracle, question: str) -> dict[str, str]:
    return {name: oracle.answer(oracle.understand(question), name) for name in oracle.table.names}


def only(*names: str) -> dict[str, str]:
    return {name: "yes" if name in names else "no" for name in ("sparrow", "cow", "kite", "piano")}


NOTHING = dict.fromkeys(("sparrow", "cow", "kite", "piano"), "invalid")


def test_questions_in_words_of_their_own_are_answered(oracle):
    assert replies(oracle, "Hmm, interesting. Would the poor thing starve if you gave it no food?") == NOTHING, "no"
    assert replies(oracle, "Okay! Would the poor thing starve to death one day?") == only("sparrow", "cow")
    assert replies(oracle, "Would people perform a lovely tune with the object?") == only("piano")
    assert replies(oracle, "Is it alive?") == only("sparrow", "cow"), "the rules come first"


@pytest.mark.parametrize(
    "said",
    [
        "What would it perform a tune with?",
        "Could you never perform a tune with the object?",
        "Could you perform 2 tunes with the object?",
        "Could you perform a tune with the object better than with a flute?",
        "Would you take the underground to the office in the morning?",
        "tune",
    ],
)
def test_what_embeddings_do_not_hear_is_left_alone(oracle, said):
    assert replies(oracle, said) == NOTHING


def test_a_name_is_a_guess_or_nothing(oracle):
    assert oracle.understand("Up among the clouds, so is it a kite?").guess == "kite"
    assert oracle.understand("So, somebody has got a pulse and picked a cow?") is None
    assert oracle.understand("Is it a sparrow, is it a cow?") is None


def test_facts_that_are_as_near_are_answered_if_they_agree(oracle, monkeypatch):
    monkeypatch.setattr(nearest, "CLEAR", 2.0)
    oracle._cached.cache_clear()
    found = replies(oracle, "Would you see it up among the white clouds?")
    assert found == {"sparrow": "invalid", "cow": "invalid", "kite": "invalid", "piano": "invalid"}
    meaning = oracle.understand("Would you see it up among the white clouds?")
    assert meaning.claim.how == "agree" and len(meaning.claim.facts) == 3


def test_points_are_made_once(oracle, tmp_path, monkeypatch, capfd):
    kept = list((tmp_path / "kept" / "questions").iterdir())
    assert [path.suffix for path in kept] == [".npy"]
    monkeypatch.setattr(LocalEncoder, "encode", lambda *_: pytest.fail("the points are there"))
    again = NearestOracle(oracle.table)
    assert "known questions are prepared" not in capfd.readouterr().err
    np.testing.assert_array_equal(again.nearest.points, oracle.nearest.points)


def test_what_was_kept_and_is_damaged_is_made_again(oracle, tmp_path):
    (kept,) = (tmp_path / "kept" / "questions").iterdir()
    for damaged in (b"", b"junk"):
        kept.write_bytes(damaged)
        np.testing.assert_array_equal(NearestOracle(oracle.table).nearest.points, oracle.nearest.points)
        assert kept.stat().st_size > 1000


def test_half_a_file_does_not_stay(oracle, tmp_path, monkeypatch):
    (kept,) = (tmp_path / "kept" / "questions").iterdir()
    kept.unlink()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalEncoder, "encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        NearestOracle(oracle.table)
    assert not list(kept.parent.iterdir())


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (b"plain", "asked.jsonl.xz cannot be read"),
        (lzma.compress(b'{"f": "alive"}'), "asked.jsonl.xz, line 1: must be"),
        (lzma.compress(b'{"f": "alive", "q": "does it breathe?"}'), "asked.jsonl.xz, line 1: must be"),
        (lzma.compress(b'{"f": "alive", "q": ["does it breathe?"]}\n['), "asked.jsonl.xz, line 2: must be"),
    ],
)
def test_known_questions_that_cannot_be_read_are_named(oracle, kept, message):
    (oracle.table.folder / "asked.jsonl.xz").write_bytes(kept)
    with pytest.raises(ValueError, match=message):
        NearestOracle(oracle.table)


@pytest.mark.parametrize(
    "said",
    [
        "I doubt it: it is a cow", "False: it is a cow", "It is bigger than this: is it a cow?",
        "Who milks it: is it a cow?", "He said: it is a cow", "Does it have legs, is it a cow?",
        "Anything but, is it a cow",
    ],
)  # fmt: skip
def test_a_guess_at_the_end_of_something_else_is_none(oracle, said):
    meaning = oracle.understand(said)
    assert meaning is None or meaning.guess is None


def test_a_folder_that_cannot_be_written_is_named(oracle, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match="known questions cannot be kept in .*file/questions.*PARLEY_CACHE"):
        NearestOracle(oracle.table)


def test_the_known_questions_are_of_facts_of_the_table_and_name_no_object():
    kept = FULL_TABLE.folder / "asked.jsonl.xz"
    entries = [json.loads(line) for line in lzma.decompress(kept.read_bytes()).decode().splitlines()]
    facts = {entry["f"] for entry in entries}
    assert facts <= set(FULL_TABLE.facts) and len(facts) > 0.95 * len(FULL_TABLE.facts)
    assert sum(len(set(entry["q"])) for entry in entries) > 13_000
    is_it = re.compile(rf"is it an? (?:{'|'.join(FULL_TABLE.names)})\?", re.IGNORECASE)
    assert not [question for entry in entries for question in entry["q"] if is_it.fullmatch(question)]
