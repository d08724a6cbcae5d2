"""Parrot, and with it the parts of the game contract that Twenty Questions does not use."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.game import Game
from envs.parrot import WORDS, Parrot
from envs.registry import make_player


def test_a_whole_game_of_two_seats_by_hand():
    game = Parrot(seats=2, rounds=2)
    assert isinstance(game, Game) and game.seat is None
    game.reset(seed=3)
    one, two = game._words["parrot0"], game._words["parrot1"]
    assert (game.seat, game.observe(), game.actions()) == ("parrot0", f"say {one}", WORDS)
    assert game.step(one).rewards == {"parrot0": 1.0}
    assert (game.seat, game.observe()) == ("parrot1", f"say {two}")
    step = game.step(f"{two} please")
    assert step.rewards == {"parrot1": 0.5} and step.executable and not (step.terminated or step.truncated)
    assert game.outcome() == {"parrot0": 0.0, "parrot1": 0.0} and game.closing() == {} == game.facts()
    assert game.step("").rewards == {"parrot0": 0.0}
    last = game.step(two)
    assert last.truncated and not last.terminated and game.seat is None
    assert game.outcome() == {"parrot0": 0.5, "parrot1": 0.75}
    assert game.closing() == {"parrot0": f"say {one}", "parrot1": f"say {two}"}
    with pytest.raises(RuntimeError, match="over"):
        game.step("more")


@given(st.text(max_size=200), st.integers(0, 1000))
def test_any_text_is_taken_and_never_paid_more_than_one(text, seed):
    game = Parrot()
    game.reset(seed)
    assert 0.0 <= game.step(text).rewards["parrot0"] <= 1.0


@pytest.mark.parametrize(("player", "low", "high"), [("perfect", 1.0, 1.0), ("random", 0.13, 0.21)])
def test_scripted_players_have_their_stated_strength(player, low, high):
    game, one, total = Parrot(rounds=10), make_player("parrot", player, {"rounds": 10}), 0
    for seed in range(200):
        game.reset(seed)
        one.reset(random.Random(seed).getrandbits(32))
        while game.seat is not None:
            game.step(one.reply(game.observe(), game.actions()))
        total += game.outcome()["parrot0"]
    assert low <= total / 200 <= high


@pytest.mark.parametrize("options", [{"seats": 0}, {"rounds": 1.5}, {"seats": True}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=f"game option {next(iter(options))}="):
        Parrot(**options)
