"""Practice games show what somebody's own game does wrong, in one line and in time, before anything has started."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

import envs.practice
from cluster.errors import ConfigError
from cluster.plan.shape import language_of
from envs.game import Game, Step
from envs.settings import GameSettings


class Echo(Game):
    """Says a word, and is over."""

    name = "echo"
    seats = ("speaker",)
    horizon = 3

    def reset(self, seed):
        self.word = "yes" if seed % 2 else "no"

    def observe(self):
        return f"say {self.word}"

    def actions(self):
        return ("yes", "no")

    def step(self, utterance):
        return Step(rewards={"speaker": float(utterance == self.word)}, terminated=True)


class SeesNothing(Echo):
    def observe(self):
        return None


class ListsNothing(Echo):
    def actions(self):
        return None


class PaysNaN(Echo):
    def step(self, utterance):
        return Step(rewards={"speaker": math.nan}, terminated=True)


class PaysNumber(Echo):
    def step(self, utterance):
        return Step(rewards=1.0, terminated=True)


class PaysStranger(Echo):
    def step(self, utterance):
        return Step(rewards={"somebody": 1.0}, terminated=True)


class BeyondOne(Echo):
    def outcome(self):
        return {"speaker": 7.0}


class FactOfNumber(Echo):
    def facts(self):
        return {"word": 3}


class Leaves(Echo):
    def step(self, utterance):
        raise SystemExit(3)


class GoesOn(Echo):
    horizon = 10**9

    def step(self, utterance):
        return Step()


class Sleeps(Echo):
    def step(self, utterance):
        time.sleep(30)


class Waits(Echo):
    async def step(self, utterance):
        await asyncio.sleep(30)


WRONG = {
    SeesNothing: r"SeesNothing\.observe has to return text, not None",
    ListsNothing: r"ListsNothing\.actions has to list texts, not None",
    PaysNaN: r"PaysNaN\.step rewards 'speaker' by nan, which is no finite number",
    PaysNumber: r"PaysNumber\.step has to reward seats by numbers, such as \{'speaker': 1\.0\}, not 1\.0",
    PaysStranger: r"PaysStranger\.step rewards 'somebody', which is none of its seats: speaker",
    BeyondOne: r"BeyondOne\.outcome has to give each seat a number from 0 to 1, and gives 'speaker' 7\.0",
    FactOfNumber: r"FactOfNumber\.facts has to return texts by name, not \{'word': 3\}",
    Leaves: "Leaves raised SystemExit",
}


def words_of(game: type[Game]) -> list[str]:
    return language_of(GameSettings(name=f"{__name__}:{game.__name__}"))


def test_a_game_that_says_nothing_of_its_words_is_met_in_practice():
    assert set(words_of(Echo)) == {"say yes", "say no", "yes", "no"}


@pytest.mark.parametrize("game", WRONG, ids=lambda game: game.__name__)
def test_what_is_wrong_is_named(game):
    with pytest.raises(ConfigError, match=f"scripted players cannot play .*{WRONG[game]}"):
        words_of(game)


@pytest.mark.parametrize("game", [GoesOn, Sleeps, Waits], ids=lambda game: game.__name__)
def test_a_game_without_an_end_is_given_up(game, monkeypatch):
    monkeypatch.setattr(envs.practice, "PRACTICE_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=f"practice games of {game.__name__}.* are not over after 0.5 s: end"):
        words_of(game)
    assert time.monotonic() - began < 10
