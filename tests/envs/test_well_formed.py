"""Games that people get wrong: each is one line that names it, when it is made or when it is played."""

from __future__ import annotations

import re

import numpy as np
import pytest

from actors.play.live import EpisodeFailed, Failure
from cluster.errors import ConfigError
from cluster.recipe.reading import load_recipe
from envs.coroutines import Blocking
from envs.game import Game, Step
from envs.registry import DOORS, GAMES, make_game
from envs.well_formed import NotAGame, good_outcome, good_sight, good_step, is_a_game, told

HERE = "tests.envs.test_well_formed"


class Whole(Game):
    seats = ("one", "two")
    seat = "one"
    horizon = 3

    def reset(self, seed):
        pass

    def observe(self):
        return "say yes"

    def step(self, utterance):
        return Step(rewards={"one": float(utterance == "yes")})


class PaysNone(Whole):
    def step(self, utterance):
        return Step(rewards={"one": None})


class Nothing:
    pass


class NoStep(Game):
    def reset(self, seed):
        pass

    def observe(self):
        return ""


class NoSeats(NoStep):
    def step(self, utterance):
        return Step()


class OneWord(Whole):
    seats = "guesser"


class Twice(Whole):
    seats = ("one", "one")


class Backwards(Whole):
    horizon = -1


class InWords(Whole):
    horizon = "3"


class Broken(Whole):
    def __init__(self):
        raise RuntimeError("the data file is gone")


@pytest.mark.parametrize(
    ("made_by", "says"),
    [
        (Nothing, "is no game: it has no reset, observe, step"),
        (NoStep, "is no whole game: its class does not say step"),
        (NoSeats, 'does not say seats, such as seats = ("guesser",)'),
        (OneWord, """.seats has to be a tuple of different names, such as ("guesser",), not 'guesser'"""),
        (Twice, ".seats has to be a tuple of different names"),
        (Backwards, ".horizon has to be a whole number of turns from 1 on, not -1"),
        (InWords, ".horizon has to be a whole number of turns from 1 on, not '3'"),
    ],
)
def test_what_is_no_game_is_refused_before_anything_starts(made_by, says):
    name = f"{HERE}:{made_by.__name__}"
    with pytest.raises(NotAGame, match=re.escape(says)):
        make_game(name)
    with pytest.raises(ConfigError, match=f"^game.name: {name}.*{re.escape(says)}") as refused:
        load_recipe(None, [f"game.name={name}"])
    assert "\n" not in str(refused.value)


def test_a_game_that_cannot_be_made_is_told_by_its_own_error():
    with pytest.raises(
        ConfigError, match=r"^game.name: .*:Broken cannot be made: RuntimeError: the data file is gone$"
    ):
        load_recipe(None, [f"game.name={HERE}:Broken"])


def test_every_game_that_ships_is_one():
    for name in GAMES:
        made = make_game(name)
        is_a_game(name, made.game if isinstance(made, Blocking) else made)
    assert len(GAMES) > 10 and DOORS
    is_a_game("whole", Whole())


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (("seen", 1.0, True, {}), "Whole.step has to return a Step, not ('seen', 1.0, True, {})"),
        (Step(rewards={"zebra": 1.0}), "Whole.step rewards 'zebra', which is none of its seats: one, two"),
        (Step(rewards={"one": float("nan")}), "Whole.step rewards 'one' by nan, which is no finite number"),
        (Step(rewards={"two": "much"}), "Whole.step rewards 'two' by 'much', which is no finite number"),
    ],
)
def test_a_step_that_pays_nobody_or_nothing_is_an_error(step, says):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(says)}$"):
        good_step(Whole(), step)


class MeansNothing(Whole):
    amounts = staticmethod(lambda said: {"share": None} if "share" in said else {})
    gist = staticmethod(lambda said: None if "gist" in said else said)


def test_what_intentions_are_made_of_is_looked_at_when_it_is_said():
    game, step = MeansNothing(), Step()
    assert good_step(game, step, "<think>which gist?</think> yes") is step
    with pytest.raises(TypeError, match=r"^MeansNothing.gist has to return text, not None$"):
        good_step(game, step, "my gist")
    with pytest.raises(TypeError, match=r"^MeansNothing.amounts has to return numbers by name, not {'share': None}$"):
        good_step(game, step, "my share")


def test_good_answers_are_passed_on():
    game = Whole()
    step = Step(rewards={"one": np.float32(0.5), "two": -3})
    assert good_step(game, step) is step and good_sight(game) == ("say yes", ())
    assert good_outcome(game) == {"one": 0.0, "two": 0.0}


@pytest.mark.parametrize("outcome", [{"one": 3.0, "two": 0.0}, {"one": 0.5}, {"one": float("nan"), "two": 1}])
def test_an_outcome_is_from_0_to_1_for_each_seat(outcome):
    game = Whole()
    game.outcome = lambda: outcome
    with pytest.raises(ValueError, match=r"^Whole.outcome has to give each seat a number from 0 to 1, and gives '"):
        good_outcome(game)


@pytest.mark.parametrize(
    ("method", "gives", "says"),
    [
        ("outcome", None, "Whole.outcome has to give each seat a number from 0 to 1, not None"),
        ("outcome", {"one": 1, "two": 0, "zoe": 1}, "Whole.outcome names 'zoe', which is none of its seats: one, two"),
        ("actions", "apple", "Whole.actions has to list texts, not 'apple'"),
        ("actions", None, "Whole.actions has to list texts, not None"),
    ],
)
def test_what_a_game_gives_is_of_its_type(method, gives, says):
    game = Whole()
    setattr(game, method, lambda: gives)
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(says)}$"):
        good_outcome(game) if method == "outcome" else good_sight(game)


def test_a_reward_that_is_no_number_is_told_when_it_is_paid():
    game = PaysNone()
    game.reset(0)
    with pytest.raises(TypeError, match=r"^PaysNone.step rewards 'one' by None, which is no finite number$"):
        game.step("yes")


def test_what_is_seen_is_text():
    game = Whole()
    game.observe = lambda: None
    with pytest.raises(TypeError, match=r"^Whole.observe has to return text, not None$"):
        good_sight(game)


def test_a_failure_carries_what_was_raised_and_where():
    try:
        make_game(f"{HERE}:Broken")
    except RuntimeError as error:
        failed = EpisodeFailed("game_error:RuntimeError", error)
    assert failed.result(7) == Failure("game_error:RuntimeError") and failed.result(7).tokens == 7
    assert re.fullmatch(r"the data file is gone \(test_well_formed.py, line \d+\)", failed.result().what)
    assert EpisodeFailed("timeout").result().what == ""


def test_a_key_that_is_missing_is_told_as_missing():
    with pytest.raises(KeyError) as raised:
        {"torch": 1}["lamp"]
    assert re.fullmatch(r"there is no key 'lamp' \(test_well_formed.py, line \d+\)", told(raised.value))
    assert told(KeyError()) == "KeyError"
    assert told(KeyError("the door is locked")) == "the door is locked"
