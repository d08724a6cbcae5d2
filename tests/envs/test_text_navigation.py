"""Text navigation of LMRL-Gym: its house, its commands, what wins and what loses."""

from __future__ import annotations

import pytest

from envs.lmrl.text_navigation import ATE, FOOD, REFUSED, THINGS, WAYS, WON, towards
from envs.registry import make_game, make_player
from tests.support.glee_games import finish, new


def standing(room: str, **options):
    game = new("text_navigation", 0, **options)
    game._room, game._seen = room, ""
    game._seen = game._described()
    return game


def test_the_house_holds_together():
    opposite = {"north": "south", "south": "north", "east": "west", "west": "east"}
    assert all(WAYS[there][opposite[way]] == room for room, ways in WAYS.items() for way, there in ways.items())
    assert len({frozenset(ways) for ways in WAYS.values()}) == len(WAYS) == 8, "the ways out tell rooms apart"
    assert towards("garden", "living room") == "go south" and towards("bathroom", "kitchen") in ("go north", "go west")


def test_a_game_by_hand():
    game = standing("living room")
    assert game.observe() == (
        "you are in the living room . there is a table . on it : stale food , fresh food . ways : east , west , south ."
        " you carry nothing . you can : go east , go west , go south , take stale food from table ,"
        " take fresh food from table ."
    )
    refused = game.step("open fridge")
    assert not refused.executable and game.observe().startswith(REFUSED)
    assert game.step("Action: take stale food from table").executable
    assert "you carry stale food ." in game.observe() and f"eat {FOOD}" in game.actions()
    for said in ("go west", "go west", "drop stale food"):
        game.step(said)
    assert game._described().endswith("it is closed . on the floor : stale food . ways : east , north , west .")
    for said in ("take stale food", "I will open fridge.", "insert stale food into fridge"):
        assert game.step(said).executable and not game.step("hm").executable
    last = game.step("close fridge")
    assert last.terminated and last.rewards == {"walker": 1.0} == game.outcome() and game.closing() == {"walker": WON}


def test_a_closed_fridge_wins_only_with_the_stale_food_in_it_and_eating_it_loses():
    game = standing("kitchen")
    for said in ("open fridge", "take fruit from fridge", "insert fruit into fridge", "close fridge"):
        step = game.step(said)
        assert step.executable and not step.terminated
    game = standing("living room")
    game.step("take fresh food from table")
    assert not game.step("eat fresh food").terminated and game._places["fresh food"] == "gone"
    game.step("take stale food from table")
    last = game.step("eat stale food")
    assert last.terminated and not last.rewards and game.outcome() == {"walker": 0.0}
    assert game.closing() == {"walker": ATE}


def test_the_partial_view_tells_neither_room_nor_what_is_carried():
    full, partial = standing("kitchen"), standing("kitchen", view="partial")
    assert (
        full.observe()
        == f"you are in the kitchen . {partial.observe().replace('you can', 'you carry nothing . you can')}"
    )
    assert not any(room in partial.observe() for room in WAYS)


def test_too_many_turns_are_cut_off():
    game = standing("garden", turns=2)
    assert not game.step("go south").truncated
    last = game.step("go south")
    assert last.truncated and not last.terminated and game.outcome() == {"walker": 0.0} and game.actions() == ()


@pytest.mark.parametrize("view", ["full", "partial"])
def test_the_expert_takes_the_shortest_way_from_every_room(view):
    needed = {"living room": 6, "kitchen": 8, "garden": 9, "bathroom": 8, "office": 7, "bedroom": 7, "dining room": 7}
    for room, turns in {**needed, "backyard": 9}.items():
        game, expert = standing(room, view=view), make_player("text_navigation", "expert", {"view": view})
        expert.reset(0)
        assert len(finish(game, {"walker": expert})) == turns and game.outcome() == {"walker": 1.0}, room


def test_players_have_their_stated_strength_and_food_that_was_carried_off_is_found_again():
    for who, stated in (("mediocre", 0.38), ("random", 0.0)):
        won = 0.0
        for seed in range(150):
            game, player = new("text_navigation", seed), make_player("text_navigation", who, {})
            player.reset(seed)
            finish(game, {"walker": player})
            won += game.outcome()["walker"]
        assert abs(won / 150 - stated) < 0.12, (who, won / 150)


def test_nothing_is_ever_in_two_places_and_a_saved_house_is_the_same():
    game, player = new("text_navigation", 3, turns=300), make_player("text_navigation", "random", {})
    player.reset(3)
    while game.seat is not None:
        game.step(player.reply(game.observe(), game.actions()))
        assert set(game._places) == set(THINGS)
        other = make_game("text_navigation", {"turns": 300})
        other.restore(game.save())
        assert other.actions() == game.actions() and other.closing() == game.closing()


@pytest.mark.parametrize(
    ("options", "told"), [({"view": "half"}, "view='half' must be one of"), ({"turns": 0}, "turns=0 must be")]
)
def test_impossible_options_are_one_line(options, told):
    with pytest.raises(ValueError, match="^game option ") as refused:
        make_game("text_navigation", options)
    assert told in str(refused.value) and "\n" not in str(refused.value)
