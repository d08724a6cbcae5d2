"""Games of Gymnasium as games of Parley."""

from __future__ import annotations

import json
import sys
import warnings
from enum import IntEnum

import gymnasium
import numpy as np
import pytest

from envs.doors.inward.gymnasium import GymnasiumGame
from envs.doors.inward.imported import WorldError
from envs.doors.inward.told import TooLarge, told
from envs.registry import make_game
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


def test_an_action_is_found_in_the_styles_of_models():
    game = GymnasiumGame(settings={"is_slippery": False})
    game.reset(0)
    for said in ("Action: down", "<think>left?</think>**Down**", "The goal is to the right.\n\nright", "[right]"):
        assert game.step(said).executable
    assert game.observe() == "state 10"
    for said in ("down and right", "not down", "Thought: down", "up\nleft"):
        assert not game.step(said).executable


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


@pytest.mark.parametrize("shape", [3, (1, 2)])
def test_what_is_no_state_with_a_number_has_a_language_too(shape):
    class Lamps(gymnasium.Env):
        observation_space = gymnasium.spaces.MultiBinary(shape)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(shape, np.int8), {}

        def step(self, action):
            return np.full(shape, action, np.int8), float(action), bool(action), False, {}

    gymnasium.register("tests/Lamps-v0", Lamps)
    try:
        words = {word for text in GymnasiumGame(id="tests/Lamps-v0").language() for word in text.split()}
        assert {"0", "1"} <= words
    finally:
        del gymnasium.registry["tests/Lamps-v0"]


def test_an_environment_in_the_current_folder_is_found_by_its_module(tmp_path, monkeypatch):
    (tmp_path / "own_environment.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.toy_text import FrozenLakeEnv\n"
        "gymnasium.register('Own-v0', FrozenLakeEnv, kwargs={'is_slippery': False})\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [each for each in sys.path if each])
    assert make_game("gymnasium", {"id": "own_environment:Own-v0"}).seats == ("player",)


def test_minigrid_is_told_in_words_and_solved_by_hand():
    game = GymnasiumGame(id="MiniGrid-Empty-5x5-v0")
    assert game.action_names == ("left", "right", "forward", "pickup", "drop", "toggle", "done")
    game.reset(0)
    assert game.observe().splitlines() == [
        "mission: get to the green goal square",
        "direction: east",
        "image: green goal 2 ahead 2 right; wall 3 ahead; wall 1 left; wall 3 right",
    ]
    for said in ("forward", "forward", "right", "forward"):
        assert not game.step(said).terminated
    assert "direction: south\nimage: green goal 1 ahead; wall 2 ahead" in game.observe()
    assert game.step("forward").terminated and game.outcome()["player"] > 0.9


def test_a_key_is_picked_up_and_a_door_is_opened():
    game = GymnasiumGame(id="MiniGrid-DoorKey-5x5-v0")
    seen = set()
    for seed in range(8):
        game.reset(seed)
        for said in ("forward", "pickup", "left", "pickup", "toggle", "right", "forward", "pickup", "toggle", "toggle"):
            if game.seat is not None:
                game.step(said)
                seen.add(game.observe())
    assert any("in your hands a yellow key" in each for each in seen)
    assert any("locked yellow door" in each for each in seen)


class Talker(gymnasium.Env):
    """A world of somebody's own: a Dict with texts, and whatever `fault` says when "2" is done."""

    class actions(IntEnum):
        wait = 0
        ask = 1
        fail = 2

    def __init__(self, fault="", picture=2):
        self.action_space = gymnasium.spaces.Discrete(3)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "note": gymnasium.spaces.Text(20),
                "heard": gymnasium.spaces.Dict({"by": gymnasium.spaces.Text(9), "times": gymnasium.spaces.Discrete(9)}),
                "picture": gymnasium.spaces.Box(0, 1, (picture, picture)),
            }
        )
        self.fault, self.size = fault, picture

    def seen(self):
        return {
            "note": b"caf\xc3\xa9 \xff", "heard": {"times": 3, "by": "ann"}, "picture": np.eye(self.size),
        }  # fmt: skip

    def reset(self, *, seed=None, options=None):
        return self.seen(), {}

    def step(self, action):
        print("a world that talks")
        if action < 2:
            return self.seen(), float(action), False, False, {}
        match self.fault:
            case "nan":
                return self.seen(), float("nan"), False, False, {}
            case "nothing":
                return None
            case "exit":
                sys.exit(1)
        raise RuntimeError("first line\nsecond line")


@pytest.fixture
def talker():
    gymnasium.register("tests/Talker-v0", Talker, disable_env_checker=True)
    yield "tests/Talker-v0"
    del gymnasium.registry["tests/Talker-v0"]


def test_a_dict_is_told_part_by_part(talker):
    game = GymnasiumGame(id=talker)
    game.reset(0)
    assert game.actions() == ("wait", "ask", "fail")
    assert game.observe() == "note: caf\u00e9 \ufffd\nheard.by: ann\nheard.times: 3\npicture: 1 0 0 1"
    assert game.step("ask").rewards == {"player": 1.0}
    assert GymnasiumGame(id=talker, keys=["note"], settings={"picture": 20}).seats == ("player",)


def test_parts_are_chosen_where_one_is_too_large(talker):
    large = {"picture": 9}
    with pytest.raises(ValueError, match="part 'picture' has 81 numbers.* at most 64; choose parts with keys=, of: "):
        GymnasiumGame(id=talker, settings=large)
    game = GymnasiumGame(id=talker, settings=large, keys=["heard"])
    game.reset(0)
    assert game.observe() == "heard.by: ann\nheard.times: 3"
    assert json.loads(json.dumps(game._options()))["keys"] == ["heard"]
    with pytest.raises(ValueError, match="keys: no part 'smell'; it has: "):
        GymnasiumGame(id=talker, keys=["smell"])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan", "environment tests/Talker-v0 paid nan, and a reward has to be a finite number"),
        ("nothing", "environment tests/Talker-v0: step failed: TypeError"),
        ("exit", "environment tests/Talker-v0: step failed: SystemExit: 1"),
        ("crash", "environment tests/Talker-v0: step failed: RuntimeError: first line second line"),
    ],
)
def test_a_world_that_fails_is_named_in_one_line_and_others_play_on(talker, fault, message):
    bad, good = (GymnasiumGame(id=talker, settings={"fault": fault}) for _ in range(2))
    for game in (bad, good):
        game.reset(0)
    with pytest.raises(WorldError, match=message) as failed:
        bad.step("fail")
    assert "\n" not in str(failed.value)
    assert good.step("ask").rewards == {"player": 1.0}
    bad.reset(1)
    assert bad.step("ask").executable, "its next episode is as good as any"


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (None, "nothing"),
        (b"", "nothing"),
        ("", "nothing"),
        (np.float32("nan"), "nan"),
        ((1, 2.5, np.array([3, 4])), "1; 2.5; 3 4"),
        (("go", {"a": 1}), "go; a: 1"),
        ([1, 2], "1 2"),
        (1234567, "1234567"),
        (np.array([2**53 + 1, 3]), "9007199254740993 3"),
        (np.array([0.25, 1e6, True]), "0.25 1000000 1"),
        (("007", "1e5"), "007; 1e5"),
        (np.array(["x", "y"]), "['x' 'y']"),
    ],
)
def test_anything_is_told(seen, words):
    assert told(seen) == words


def test_what_is_too_large_is_never_told_in_part():
    with pytest.raises(TooLarge, match="it has 65 numbers"):
        told(np.zeros(65))
    assert told(np.zeros(64)).count("0") == 64


@pytest.mark.long
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
        ({"keys": "mission"}, "keys='mission' must be a list of names"),
        ({"keys": ["map"]}, "keys=\\['map'\\]: what is shown of FrozenLake-v1 is no Dict"),
        ({"id": "MiniGrid-Nowhere-v0"}, "id='MiniGrid-Nowhere-v0' cannot be made"),
        ({"id": "no_such_package:World-v0"}, "cannot be made: No module named 'no_such_package'"),
        ({"turns": 0}, "turns=0"),
    ],
)
def test_impossible_environments_of_gymnasium_are_refused(options, message):
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        warnings.simplefilter("ignore")
        GymnasiumGame(**options)
