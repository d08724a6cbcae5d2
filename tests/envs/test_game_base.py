"""The base class of games: what a class gets that says `seats`, `reset`, `observe` and `step` and nothing else."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from envs.game import Game, Step, Trial, hook, money_of
from envs.practice import AnyAction
from envs.registry import GAMES, game_class


class CountTo(Game):
    """Two seats say the numbers in turns; each right one pays a quarter."""

    seats = ("odd", "even")
    horizon = 6

    def __init__(self, last: int = 4):
        self.last = last

    def reset(self, seed):
        self.next = 1 + seed % 2

    def observe(self):
        return f"say {self.next}"

    def step(self, utterance):
        right = utterance == str(self.next)
        seat = self.seat
        self.next += right
        return Step({seat: 0.25} if right else {}, executable=right, terminated=self.next > self.last)


class Listed(CountTo):
    def actions(self):
        return ("1", "2", "3", "4")


def say(game: Game, *utterances: str) -> list[Step]:
    return [game.step(each) for each in utterances]


def test_seats_take_turns_until_the_game_ends_itself():
    game = CountTo()
    assert game.seat is None and game.outcome() == {"odd": 0.0, "even": 0.0}
    game.reset(0)
    seen = []
    for number in range(1, 5):
        seen.append((game.seat, game.observe()))
        assert game.outcome() == {"odd": 0.0, "even": 0.0}, "nothing is won before the end"
        last = game.step(str(number))
    assert seen == [("odd", "say 1"), ("even", "say 2"), ("odd", "say 3"), ("even", "say 4")]
    assert last.terminated and not last.truncated and game.seat is None
    assert game.outcome() == {"odd": 0.5, "even": 0.5}
    with pytest.raises(RuntimeError, match="the game is over"):
        game.step("5")


def test_the_horizon_cuts_a_game_off_and_what_is_won_is_at_most_1():
    game = CountTo(last=99)
    game.reset(0)
    steps = say(game, "1", "2", "3", "4", "5", "6")
    assert [step.truncated for step in steps] == [False] * 5 + [True] and not any(s.terminated for s in steps)
    assert game.seat is None and game.outcome() == {"odd": 0.75, "even": 0.75}
    game.reset(1)  # a new episode owes nothing to the one before
    assert game.seat == "odd"
    say(game, *"xxxxxx")
    assert game.outcome() == {"odd": 0.0, "even": 0.0}

    missed = Step(executable=False)

    class Constant(CountTo):  # says the same of every miss
        def step(self, utterance):
            return missed

    for _ in range(2):
        constant = Constant()
        constant.reset(0)
        assert [step.truncated for step in say(constant, *"xxxxxx")] == [False] * 5 + [True]
    assert not missed.truncated

    class Rich(CountTo):
        def step(self, utterance):
            return Step({"odd": 9.0, "even": -9.0}, terminated=True)

    rich = Rich()
    rich.reset(0)
    rich.step("")
    assert rich.outcome() == {"odd": 1.0, "even": 0.0}


def test_an_episode_is_saved_as_its_seed_and_what_was_said():
    game = CountTo()
    assert game.save() == {"seed": None, "said": []}
    game.reset(1)
    say(game, "2", "x")
    saved = json.loads(json.dumps(game.save()))
    assert saved == {"seed": 1, "said": ["2", "x"]}
    other = CountTo()
    other.reset(5)
    other.restore(saved)
    for each in (game, other, pickle.loads(pickle.dumps(game)), copy.deepcopy(game)):
        assert (each.seat, each.observe(), each.save()) == ("odd", "say 3", saved)
        assert [step.terminated for step in say(each, "3", "4")] == [False, True]
        assert each.outcome() == {"odd": 0.5, "even": 0.25}
    other.restore({"seed": None, "said": []})
    assert other.seat is None


def test_a_call_of_super_counts_a_turn_once():
    class Louder(CountTo):
        def __init__(self, last: int = 4, loud: bool = True):
            super().__init__(last)
            self.loud = loud

        def reset(self, seed):
            super().reset(seed)

        def step(self, utterance):
            return super().step(utterance.strip("!"))

    game = Louder(loud=False)
    game.reset(0)
    say(game, "1!", "2!")
    assert game.save() == {"seed": 0, "said": ["1!", "2!"]} and game.observe() == "say 3" and game.seat == "odd"


def test_a_seat_of_its_own_decides_who_acts_and_when_it_is_over():
    class Twice(CountTo):
        seat = None
        horizon = 1

        def reset(self, seed):
            super().reset(seed)
            self.seat = "even"

        def step(self, utterance):
            self.seat = None if utterance == "2" else "even"
            return Step({"even": 0.5})

    game = Twice()
    game.reset(0)
    assert [step.truncated for step in say(game, "1", "2")] == [False, False] and game.seat is None
    assert game.outcome() == {"odd": 0.0, "even": 1.0}
    with pytest.raises(RuntimeError, match="over"):
        game.step("3")


def test_a_step_of_a_mixin_is_counted_too():
    class Rules:
        def reset(self, seed):
            self.heard = 0

        def observe(self):
            return str(self.heard)

        def step(self, utterance):
            self.heard += 1
            return Step(terminated=self.heard == 2)

    class Mixed(Rules, Game):
        seats = ("one",)

    game = Mixed()
    game.reset(0)
    say(game, "a", "b")
    assert game.seat is None and game.save()["said"] == ["a", "b"]


def test_a_beginning_that_fails_and_a_step_that_raises_leave_no_turn():
    class Fragile(CountTo):
        def reset(self, seed):
            super().reset(seed)
            if seed < 0:
                raise ValueError("no such seed")

        def step(self, utterance):
            if utterance == "raise":
                raise OSError("gone")
            return super().step(utterance) if utterance != "nothing" else None

    game = Fragile()
    game.reset(0)
    with pytest.raises(OSError):
        game.step("raise")
    with pytest.raises(TypeError, match="Fragile.step has to return a Step, not None"):
        game.step("nothing")
    assert game.save() == {"seed": 0, "said": []} and game.seat == "odd"
    game.step("1")
    with pytest.raises(ValueError):
        game.reset(-1)
    assert game.seat is None


def test_what_is_left_unsaid_has_a_default():
    game = CountTo()
    assert game.name == CountTo.name == "count_to" and Listed.name == "listed"
    assert (game.briefing("odd"), game.actions(), game.closing(), game.facts()) == ("", (), {}, {})
    assert game.trials() == [Trial("count_to")] and money_of(game) == {}
    assert (game.slow, game.observations, game.helpful) == (False, "text", None)
    assert (game.gist("  a b "), game.amounts("5")) == ("  a b ", {})
    with pytest.raises(TypeError, match="observe"):
        type("Half", (Game,), {"seats": ("one",), "reset": CountTo.reset, "step": CountTo.step})()


def test_players_come_from_listed_actions():
    assert CountTo.players() == {}
    assert Listed.players() == {"mediocre": AnyAction, "random": AnyAction}
    player = AnyAction(last=4)
    player.reset(3)
    said = [player.reply("", ("1", "2", "3")) for _ in range(30)]
    assert set(said) == {"1", "2", "3"} and player.reply("", ()) == ""
    player.reset(3)
    assert said == [player.reply("", ("1", "2", "3")) for _ in range(30)]


def test_the_language_is_what_is_met_in_scripted_games_under_the_same_options():
    made = []

    class Noted(Listed):
        def __init__(self, last: int = 4):
            made.append(last)
            super().__init__(last)

    game = Noted(3)
    game.reset(7)
    words = set(game.language())
    assert words == {"say 1", "say 2", "say 3", "1", "2", "3", "4"}
    assert made == [3, 3] and set(Noted(last=3).language()) == words and made == [3, 3, 3], "made once, then known"
    assert game.save() == {"seed": 7, "said": []}, "the episode goes on"
    assert "say 4" in set(Noted(5).language())
    assert set(CountTo().language()) == {"say 1", "say 2"}, "nobody plays it: its openings"


def test_games_that_have_everything_of_their_own_are_not_wrapped():
    for name in GAMES:
        made_by = game_class(name)
        assert issubclass(made_by, Game), name
        for method in (made_by.reset, made_by.step, made_by.__init__):
            assert not hasattr(method, "records_game"), name


def test_hooks_of_a_game_without_the_base_class_are_the_defaults():
    class Duck:
        name = "duck"
        seats = ("one",)

    class LoudDuck(Duck):
        slow, observations = True, "labels"

        @classmethod
        def gist(cls, utterance):
            return utterance.upper()

        def money(self, seat):
            return 3

    duck, loud = Duck(), LoudDuck()
    assert (hook(duck, "slow"), hook(duck, "observations"), hook(duck, "helpful")) == (False, "text", None)
    assert hook(Duck, "gist")("quack") == "quack" and hook(duck, "amounts")("5") == {} and money_of(duck) == {}
    assert hook(Duck, "trials")() == hook(duck, "trials")() == [Trial("duck")]
    assert (hook(loud, "slow"), hook(LoudDuck, "observations"), hook(LoudDuck, "gist")("a")) == (True, "labels", "A")
    assert money_of(loud) == {"one": 3.0}
