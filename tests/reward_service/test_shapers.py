"""Shapers without state: what a seat is paid, and where."""

from __future__ import annotations

from math import log

import pytest

from envs.episode import Episode, Ticket, Turn
from envs.settings import GameSettings
from reward_service.settings import RewardSettings
from reward_service.shaper import SHAPERS, Shaper

GAME = GameSettings(name="parrot")
TICKET = Ticket("run", "game", 4, 9, (("a", "policy"), ("b", "scripted:random"), ("c", "policy"), ("silent", "policy")))
TURNS = [Turn(seat, "", "", "", reward=paid) for seat, paid in (("a", 0.5), ("b", 7.0), ("c", -1.0), ("a", 0.25))]
EPISODE = Episode(TICKET, TURNS, {"a": 0.75, "b": 0.0, "c": 0.5, "silent": 1.0}, True)


@pytest.mark.parametrize(
    ("shaper", "paid"), [("outcome", {"a": [0, 0.75], "c": [0.5]}), ("game", {"a": [0.5, 0.25], "c": [-1.0]})]
)
def test_each_policy_seat_that_spoke_is_paid_for_its_turns(shaper, paid):
    shaped = RewardSettings(shaper=shaper).shaper.make(GAME).shape([EPISODE])
    assert {each.seat: each.rewards.tolist() for each in shaped} == paid
    assert all((each.number, each.version, each.kind) == (4, 0, "reward") for each in shaped)


@pytest.mark.parametrize("name", SHAPERS.names)
def test_every_shaper_that_is_named_can_be_made_and_keeps_its_own_state(name):
    shaper: Shaper = RewardSettings(shaper=name).shaper.make(GAME)
    again = RewardSettings(shaper=name).shaper.make(GAME)
    again.restore(shaper.state())
    assert again.state() == shaper.state()


def test_state_is_not_forced_on_a_shaper_that_keeps_none():
    with pytest.raises(ValueError, match="Outcome keeps no state, but was given \\['space'\\]"):
        RewardSettings().shaper.make(GAME).restore({"space": 1})


def test_igpo_pays_for_the_rise_of_the_right_answer():
    """P is .1, .3 and .25 before three turns of a game that is won."""
    turns = [Turn("a", "policy", "", "", answer_logprob=log(each)) for each in (0.1, 0.3, 0.25)]
    game = Episode(Ticket("run", "game", 4, 9, (("a", "policy"),)), turns, {"a": 1.0}, True)

    def paid(**options) -> list[float]:
        return RewardSettings(shaper={"kind": "igpo", **options}).shaper.make(GAME).shape([game])[0].rewards.tolist()

    assert paid() == pytest.approx([0.2, -0.05, 1]) and sum(paid()) == pytest.approx(1.15)
    assert paid(difference="log", gain=0.5) == pytest.approx([log(3) / 2, log(0.25 / 0.3) / 2, 1])
    turns[1].answer_logprob = None
    assert paid() == [0, 0, 1], "nobody knows what a turn without room did"
    turns[0].answer_logprob = turns[2].answer_logprob = None
    with pytest.raises(ValueError, match="episode 4 of game does not tell .*; set rollout.score_answers=true"):
        paid()
    game.terminated = False
    assert paid() == [0, 0, 1], "a game that did not end reveals nothing"
    game.terminated, game.turns[:] = True, turns[:1]
    assert paid() == [1], "the last turn is worth the outcome, scored or not"
