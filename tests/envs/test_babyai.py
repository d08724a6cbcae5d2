"""BabyAI in words: the view is told as it is, missions end as minigrid says, and nothing is printed."""

from __future__ import annotations

import re

import pytest

from envs.registry import make_game, make_player
from envs.worlds.babyai.game import SEAT, BabyAI
from envs.worlds.babyai.players import Part, parts_of, things_of
from envs.worlds.babyai.words import AHEAD, NOTHING, SIZE, seen
from tests.support.worlds import needs

EMPTY = (1, 0, 0)


def view(**things: tuple[int, int, int]) -> list:
    """`things`: at "right_forward" of the agent."""
    fields = [[EMPTY] * SIZE for _ in range(SIZE)]
    for place, found in things.items():
        right, forward = map(int, place.removeprefix("at").replace("m", "-").split("_"))
        fields[AHEAD + right][SIZE - 1 - forward] = found
    return fields


def test_what_is_in_view_is_told_with_steps():
    assert seen(view(), "") == NOTHING
    told = seen(view(at0_3=(2, 5, 0), atm2_0=(2, 5, 0), atm3_0=(2, 5, 0), at1_4=(6, 0, 0)), "blue key")
    assert told == (
        "You see a wall 3 steps forward. You see a wall 2 steps left. "
        "You see a red ball 1 step right and 4 steps forward. You carry a blue key."
    )
    assert seen(view(at0_1=(4, 4, 0), at0_0=(6, 0, 0)), "") == "You see an open yellow door 1 step forward."
    assert things_of(told) == [("wall", 0, 3), ("wall", -2, 0), ("red ball", 1, 4)]


def test_missions_are_read_in_their_order():
    assert parts_of("go to the red ball") == [Part("go to", "red ball", "")]
    assert parts_of("pick up a key on your left and open the red door after you put a box next to the ball") == [
        Part("put", "box", "ball"),
        Part("pick up", "key", ""),
        Part("open", "red door", ""),
    ]


@needs("babyai")
def test_a_mission_that_is_done_is_worth_one_and_paid_as_minigrid_pays():
    game, player = make_game("babyai", {"level": "GoToRedBall"}), make_player("babyai", "seeker", {})
    won = 0
    for seed in range(8):
        game.reset(seed)
        player.reset(seed)
        assert re.match(r"Goal: go to (a|the) red ball\.\nYou see ", game.observe())
        turns = 0
        while game.seat is not None:
            step = game.step(player.reply(game.observe(), game.actions()))
            turns += 1
        if step.terminated:
            won += 1
            assert game.outcome() == {SEAT: 1.0} and step.caption.endswith("The mission is done.")
            assert game.money(SEAT) == pytest.approx(1 - 0.9 * turns / 64) == step.rewards[SEAT]
        else:
            assert turns == game.horizon == 64 and step.truncated and game.outcome() == {SEAT: 0.0}
        assert re.fullmatch(r"go to (a|the) red ball\.", game.facts()["mission"])
    assert won >= 5


@needs("babyai")
def test_levels_print_nothing_and_unknown_ones_are_named(capfd):
    game = make_game("babyai", {"level": "GoToImpUnlock", "turns": 3, "menu": True})
    for seed in range(3):
        game.reset(seed)
    assert not game.step("jump").executable and game.step("I will turn left.").executable
    assert game.observe().endswith("You can: turn left; turn right; go forward; pick up; drop; toggle.")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(ValueError, match="^game option level='GoToRedBal': .*did you mean GoToRedBall?"):
        BabyAI("GoToRedBal")
