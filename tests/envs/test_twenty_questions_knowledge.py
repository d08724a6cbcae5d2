"""What else is known of the objects, and how natural questions are understood: misspelled, compound, about anything."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from envs.text.typos import distance
from envs.twenty_questions.knowledge import read_knowledge
from envs.twenty_questions.table import TableError
from tests.support.full_table import ORACLE, TABLE, answer

NATURAL = Path(__file__).parents[1] / "data" / "twenty_questions_natural.tsv"


def test_every_fact_is_told_apart_from_its_contrary():
    everything = (1 << len(TABLE.names)) - 1
    for name, fact in TABLE.facts.items():
        assert not (fact.yes & fact.some or fact.yes & fact.open or fact.some & fact.open), name
        assert (fact.yes | fact.some | fact.open) & ~everything == 0 and fact.words, name


def test_natural_questions_of_many_voices():
    """Those that the facts were chosen by: 94 % right and .6 % wrong."""
    said = Counter()
    for line in NATURAL.read_text().splitlines():
        question, yes, no = line.split("\t")
        meaning = ORACLE.understand(question)
        for expected, names in (("yes", yes), ("no", no)):
            for name in names.split(","):
                reply = ORACLE.answer(meaning, name)
                said["right" if reply == expected else "refused" if reply == "invalid" else "wrong"] += 1
    total = said.total()
    assert total > 2000 and said["right"] > 0.92 * total and said["wrong"] < 0.01 * total, said


@pytest.mark.parametrize(
    ("question", "replies"),
    [
        ("does it hvae a tial", {"dog": "yes", "apple": "no"}),
        ("is it mad eof wood", {"pencil": "yes", "river": "no"}),
        ("isit an anmial?", {"cat": "yes", "car": "no"}),
        ("is it a helicoptor", {"helicopter": "yes", "airplane": "no"}),
        ("Do you stir with it?", {"spoon": "yes", "moon": "no"}),  # a word of its own, no misspelled star
        ("Is it a vegetable or fruit?", {"onion": "yes", "apple": "yes", "hammer": "no"}),
        ("Is it organic or inorganic?", {"key": "invalid", "apple": "invalid"}),
        ("Does it have bushy fur?", {"car": "no", "cat": "invalid"}),
        ("Is it a bulbous instrument?", {"car": "no", "guitar": "invalid"}),
        ("Does it work without electricity?", {"spoon": "yes", "television": "no"}),
        ("Is it something that is not made of metal?", {"pillow": "yes", "key": "no"}),
        ("Is its length less than ten centimetres?", {"bee": "yes", "surfboard": "no"}),
        ("Does the object exceed in size a standard motor car?", {"whale": "yes", "rabbit": "no"}),
        ("Does it weigh more than a cat?", {"cow": "yes", "mouse": "no"}),
        ("Would it fit in my pocket?", {"key": "yes", "sofa": "no"}),
        ("Does it contain liquid?", {"bottle": "yes", "hammer": "no"}),
        ("Was it invented in the last 150 years?", {"television": "yes", "sword": "no"}),
        ("Is it native to Australia?", {"kangaroo": "yes", "lion": "no", "parrot": "invalid"}),
    ],
)
def test_what_is_said_is_understood(question, replies):
    assert {name: answer(question, name) for name in replies} == replies


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [("animal", "anmial", 1), ("spoon", "spon", 1), ("hammer", "hammmer", 1), ("house", "horse", 1), ("cat", "dog", 3)],
)
def test_slips_of_the_finger_are_counted(one, other, count):
    assert distance(one, other, 2) == distance(other, one, 2) == count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('hollow = { words = "hollow" }', "'hollow' must have `means` and `words`"),
        ('hollow = { means = "m", words = "hollow", yes = "fluute" }', "yes of 'hollow' has unknown 'fluute'"),
        ('hollow = { means = "m", words = "hollow", yes = ["flute"] }', "must be a text of names"),
        ('hollow = { means = "m", words = "hollow", role = "x" }', "role of 'hollow' must be one of: kind, part"),
        ('a = { means = "m", words = "x", colour = 1 }', "'a' has an unknown key 'colour'"),
        ("hollow = ", "not a TOML file"),
    ],
)
def test_a_file_of_facts_that_cannot_be_read_is_refused_by_name(tmp_path, text, message):
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(TableError, match=message) as refused:
        read_knowledge(tmp_path, {}, ())
    assert "\n" not in str(refused.value) and "own.toml" in str(refused.value)
