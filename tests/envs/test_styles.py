"""Utterances in the styles of real models are read as a person would read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envs.glee.bargaining import Bargaining
from envs.glee.speech import read
from envs.registry import make_game
from envs.text.listed import named
from envs.twenty_questions.meaning import Meaning
from tests.envs.test_twenty_questions_reading import TRICKS
from tests.support.city_games import CITIES, understood
from tests.support.city_games import ORACLE as CITY_ORACLE
from tests.support.full_table import ORACLE, TABLE
from tests.support.styles import actions, codes, guesses, questions, styled, talks

DATA = Path(__file__).parents[1] / "data"
PREFIXES = (
    *("Question: ", "Q7: ", "**Question 7:** ", "My next question is: ", "Great! Next question: ", "- ", "Answer: "),
    *("Thought: The last answer was no.\nQuestion: ", "I'll narrow it down.\n\n"),
)


def test_there_are_many_styles_and_no_two_are_the_same():
    rows = styled()
    assert len(rows) >= 150 and len(set(rows)) == len(rows)
    assert {row.kind for row in rows} == {
        *("guess", "mention", "ask20", "askcity", "act", "idle", "divide", "decide", "price", "code")
    }


@pytest.mark.parametrize(("game", "options"), [("twenty_questions", {}), ("guess_my_city", None)])
def test_every_style_of_a_guess_wins_and_no_mention_does(game, options):
    """Of every object of the small table, and of every city."""
    rates = guesses(game, options)
    assert not rates.wrong, f"{rates}\n{rates.wrong}"
    assert len(rates) == 7


def test_every_style_of_a_guess_wins_every_object_of_the_full_table():
    rates = guesses("twenty_questions")
    assert rates.wrong == {"guess": ['Is it "{}"?']}, "but that of an orange, whose name is a colour, too"
    assert rates["guess", "label"][1] == 58 * len(TABLE.names)


@pytest.mark.parametrize("form", ["Question Is it a {}?", "My question is is it a {}?", "Next question 8 is it a {}?"])
def test_the_word_question_needs_no_colon(form):
    for name in TABLE.names:
        assert ORACLE.understand(form.format(name)).guess == name
    for city in CITIES:
        assert understood(form.replace(" a ", " ").format(city)) == f"guess={city}"


@pytest.mark.parametrize("form", ["Question: {}", "**Question 7:** {}", "Final answer: {}", "Let me see.\n\n{}"])
def test_tricks_win_nothing_after_a_label_either(form):
    for trick in TRICKS:
        for name in TABLE.names[::3]:
            meaning = ORACLE.understand(form.format(trick.format(name, name, name)))
            assert meaning is None or meaning.guess != name, (form, trick, name)


@pytest.mark.parametrize(("kind", "game"), [("ask20", "twenty_questions"), ("askcity", "guess_my_city")])
def test_questions_in_every_style_are_understood(kind, game):
    assert not questions(kind, game).wrong


@pytest.mark.parametrize(
    ("file", "oracle"),
    [
        ("twenty_questions_questions", ORACLE),
        ("twenty_questions_fresh", ORACLE),
        ("guess_my_city_questions", CITY_ORACLE),
        ("guess_my_city_unseen", CITY_ORACLE),
    ],
)
def test_a_label_changes_nothing_of_what_is_asked(file, oracle):
    for line in (DATA / f"{file}.tsv").read_text(encoding="utf-8").splitlines():
        text = line.split("\t")[0]
        for prefix in PREFIXES:
            labelled, plain = oracle.understand(f"{prefix}{text}"), oracle.understand(text)
            if labelled != plain:  # "answer: is it a cat?" guesses the cat, and asks for no other cats
                assert labelled == replace(plain, kind=None) and plain.guess and "nswer" in prefix, prefix + text


def test_listed_actions_are_found_in_every_style_and_none_where_none_is_meant():
    rates = actions()
    assert not rates.wrong, f"{rates}\n{rates.wrong}"


def test_offers_and_answers_are_found_in_every_style_and_messages_arrive_alone():
    rates = talks()
    assert not rates.wrong, f"{rates}\n{rates.wrong}"


def test_code_is_found_behind_thinking_and_labels(monkeypatch):
    assert not codes(monkeypatch).wrong


def test_styles_that_nothing_was_chosen_by_are_read_less_often_and_never_falsely():
    """Written when all rules were there, and never used for one: what to expect of a new model."""
    game = make_game("virtualhome", {"listing": "all"})
    game.reset(0)
    readings = {
        "object": lambda text: label_of(ORACLE.understand(text)),
        "city": understood,
        "action": lambda text: named(text, game.actions()) or "",
        "bargaining": lambda text: read(text, Bargaining.grammar).act,
    }
    rows = [line.split("\t") for line in (DATA / "styled_fresh.tsv").read_text(encoding="utf-8").splitlines()]
    found = [(meant, readings[kind](text.replace("\\n", "\n"))) for kind, meant, text in rows]
    assert len(rows) >= 50 and sum(meant == said for meant, said in found) / len(rows) >= 0.9
    assert all(said in (meant, "", "invalid") for meant, said in found)


def label_of(meaning: Meaning | None) -> str:
    if meaning is None:
        return "invalid"
    return f"={meaning.guess}" if meaning.guess is not None else str(meaning.attribute)
