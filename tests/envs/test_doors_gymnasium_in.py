"""Games of Gymnasium as games of Parley."""

from __future__ import annotations

import warnings

import gymnasium
import pytest

from envs.doors.inward.gymnasium import GymnasiumGame
from tests.support.imported_games import mean_outcome

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries, about themselves


def test_a_frozen_lake_by_hand():
    """S F F F / F H F H / F F F H / H F F G: down, down, right, right, down, right is the way."""
    game = GymnasiumGame(settings={"is_slippery": False})
    game.reset(0)
    assert game.actions() == ("left", "down", "right", "up") and game.observe() == "state 0"
    seen = []
    for said in ("down", "DOWN ", "right", "swim", "right", "down", "right"):
        step = game.step(said)
        assert step.executable == (said != "swim")
        seen.append(game.observe())
    assert seen == ["state 4", "state 8", "state 9", "state 9", "state 10", "state 14", "state 15"]
    assert step.terminated and step.rewards == {"player": 1.0} and game.outcome() == {"player": 1.0}
    assert game.closing() == {"player": "state 15"}


def test_a_picture_shows_where_the_player_is():
    game = GymnasiumGame(settings={"is_slippery": False}, show="picture")
    game.reset(0)
    assert game.observe() == "<S>FFF\nFHFH\nFFFH\nHFFG"
    game.step("down")
    assert game.observe().endswith("SFFF\n<F>HFH\nFFFH\nHFFG")


def test_an_action_that_the_environment_masks_out_is_neither_listed_nor_taken():
    game = GymnasiumGame(id="Taxi-v3", returns=[-200, 15])
    game.reset(0)
    hidden = set(game.action_names) - set(game.actions())
    assert hidden
    before = game.observe()
    step = game.step(min(hidden))
    assert not step.executable and not step.rewards and game.observe() == before


def test_a_time_limit_is_a_cut():
    game = GymnasiumGame(turns=2)
    game.reset(0)
    assert not game.step("left").truncated
    last = game.step("left")
    assert last.truncated and not last.terminated and game.seat is None


def test_texts_in_and_out():
    class Echo(gymnasium.Env):
        observation_space = gymnasium.spaces.Text(40, min_length=0)
        action_space = gymnasium.spaces.Text(5, charset="abc")

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return "", {}

        def step(self, action):
            return action * 2, len(action) / 10, action == "abc", False, {}

    gymnasium.register("tests/Echo-v0", Echo)
    try:
        game = GymnasiumGame(id="tests/Echo-v0")
        game.reset(0)
        assert game.observe() == "nothing" and game.actions() == ()
        assert not game.step("hello").executable and game.observe() == "nothing"
        assert game.step("ab").rewards == {"player": 0.2} and game.observe() == "abab"
        assert game.step("abc").terminated and game.outcome() == {"player": pytest.approx(0.5)}
    finally:
        del gymnasium.registry["tests/Echo-v0"]


def test_players_of_the_frozen_lake_have_their_stated_strength():
    game = GymnasiumGame()
    assert 0.66 < mean_outcome(game, "practised", 600) < 0.82
    assert 0.13 < mean_outcome(game, "mediocre", 600) < 0.32
    assert mean_outcome(game, "random", 600) < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "Nope-v0"}, "id='Nope-v0' cannot be made"),
        ({"id": "Pendulum-v1"}, "neither Discrete nor Text"),
        ({"id": "Blackjack-v1", "show": "picture"}, "not as ansi"),
        ({"settings": {"colour": 1}}, "cannot be made"),
        ({"action_names": ["go"]}, "must be 4 different names"),
        ({"returns": [1, 1]}, "the worst and the best"),
        ({"show": "film"}, "show='film'"),
        ({"turns": 0}, "turns=0"),
    ],
)
def test_impossible_environments_of_gymnasium_are_refused(options, message):
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        warnings.simplefilter("ignore")
        GymnasiumGame(**options)
