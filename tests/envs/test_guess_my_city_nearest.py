"""Guess My City read by the nearest of known questions: what it may answer, and what it must leave alone."""

from __future__ import annotations

import pytest

from envs.guess_my_city import nearest
from envs.guess_my_city.oracle import INVALID
from envs.registry import make_game

KNOWN = [
    ("metric", "do the road signs give distances in kilometres?"),
    ("metric", "would one buy milk by the litre there?"),
    ("siesta", "does everybody take a nap after lunch?"),
    ("siesta", "are the shops shut in the early afternoon because of the heat?"),
    (f"{nearest.OF_RULES}metro", "could i get around by trains under the streets?"),
    (f"{nearest.OF_RULES}metro", "do the trains run in tunnels below the city?"),
]


@pytest.fixture
def oracle(tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_CACHE", str(tmp_path))
    monkeypatch.setattr(nearest.NearestOracle, "_known", lambda self: KNOWN)
    monkeypatch.setattr(nearest, "LEAST", 0.55)
    table = make_game("guess_my_city", {"paraphrases": False}).oracle.atlas
    return nearest.NearestOracle(table, False)


def replies(oracle, question: str, *cities: str) -> list[str]:
    return [oracle.answer(oracle.understand(question), city) for city in cities]


def test_questions_in_words_of_their_own_are_answered(oracle):
    shown = replies(oracle, "Are distances along the roads shown in kilometres?", "paris", "new york")
    assert [each.split(",")[0] for each in shown] == ["Yes", "No"]
    ridden = replies(oracle, "Could I ride around by trains below the streets?", "paris", "dublin")
    assert [each.split(",")[0] for each in ridden] == ["Yes", "No"]


@pytest.mark.parametrize(
    "said",
    [
        "Are distances along the roads never shown in kilometres?",
        "Are distances along the 2 roads shown in kilometres?",
        "Why are distances along the roads shown in kilometres?",
        "Are distances along the roads shown in kilometres, as in Paris?",
        "Would a unicorn pour soup over its diary?",
    ],
)
def test_what_embeddings_do_not_hear_is_left_alone(oracle, said):
    assert replies(oracle, said, "paris", "new york") == [INVALID, INVALID]


def test_two_things_that_do_not_agree_are_not_answered(oracle, monkeypatch):
    monkeypatch.setattr("envs.text.nearest.CLEAR", 2.0)
    monkeypatch.setattr(oracle.nearest, "asked", ["metric", "siesta", "siesta"])
    meaning = oracle.understand("Are distances along the roads shown in kilometres?")
    assert meaning.value == "metric&siesta&siesta"
    assert replies(oracle, "Are distances along the roads shown in kilometres?", "paris")[0] == INVALID


def test_what_is_known_is_of_things_and_topics_of_the_game(monkeypatch):
    monkeypatch.setattr(nearest, "Nearest", lambda asked, _least: list(asked))
    oracle = nearest.NearestOracle(make_game("guess_my_city", {"paraphrases": False}).oracle.atlas, False)
    keys = {key for key, _ in oracle.nearest}
    topics = {key.removeprefix(nearest.OF_RULES) for key in keys if key.startswith(nearest.OF_RULES)}
    assert topics <= set(oracle.topics) and len(topics) > 5
    assert keys - {nearest.OF_RULES + topic for topic in topics} <= set(oracle.reader.things.things)
    assert len(oracle.nearest) > 12_000


def test_options_are_named():
    with pytest.raises(ValueError, match="nearest='yes' must be true or false"):
        make_game("guess_my_city", {"nearest": "yes"})
