"""What counts as right, refused and wrong, and that the packed questions are about secrets that the games have."""

from __future__ import annotations

import pytest

from benchmarks.questions.__main__ import GAMES, Pair, pairs_of, row, secret_of
from envs.registry import make_game


@pytest.mark.parametrize(
    ("expected", "answer", "verdict"),
    [
        ("yes", "Yes.", "right"),
        ("yes", "No.", "wrong"),
        ("yes", "invalid", "refused"),
        ("no", "I cannot answer that.", "refused"),
        ("either", "No.", "right"),
        ("either", "Invalid", "refused"),
        ("refuse", "I say nothing about the name.", "right"),
        ("refuse", "Yes.", "wrong"),
        (("french", "dutch"), "They speak Dutch there.", "right"),
        (("french", "dutch"), "They speak German there.", "wrong"),
        (("french", "dutch"), "I cannot answer that.", "refused"),
    ],
)
def test_a_verdict(expected, answer, verdict):
    assert Pair("child", "closed", "Is it?", "Brussels", expected).verdict(answer) == verdict


def test_a_row_has_the_shares_in_percent():
    assert row("all", ["right", "right", "wrong", "refused"]) == ["all", 4, "50.0", "25.0", "25.0"]


@pytest.mark.parametrize("which", ["tuning", "held_out", "second"])
@pytest.mark.parametrize("game", GAMES)
def test_every_question_is_about_secrets_that_the_game_has(game, which):
    oracle, pairs = make_game(game, GAMES[game]).oracle, pairs_of(game, which)
    known = set(oracle.atlas.cities if game == "guess_my_city" else oracle.table.names)
    assert len(pairs) > 500 and {secret_of(oracle, pair.secret) for pair in pairs} <= known
    assert len({pair.persona for pair in pairs}) >= 6


@pytest.mark.parametrize("game", GAMES)
def test_no_question_was_tuned_on_and_held_out(game):
    tuned, *held_out = (
        {pair.question.lower() for pair in pairs_of(game, which)} for which in ("tuning", "held_out", "second")
    )
    assert not any(tuned & each for each in held_out)
