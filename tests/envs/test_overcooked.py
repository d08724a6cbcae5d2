"""Overcooked: whole dishes by hand, the rules of the kitchen, the episode and its players."""

from __future__ import annotations

import random
import time
from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.overcooked.kitchen import (
    CHOPPED,
    CHOPS,
    GONE,
    IN_BOWL,
    IN_HAND,
    LEFT,
    NOTHING,
    SERVED,
    STEP,
    TASKS,
    UP,
    WAIT,
    WRONG,
    Kitchen,
)
from envs.registry import make_game, make_player
from tests.support.kitchens import GOAL, SEAT, TOMATO, WAYS, game_of, kitchen_of, paid, steps_of


def test_a_whole_tomato_salad_by_hand():
    game = game_of(shuffle=False)
    walk, chop, serve = "walk to the cutting board", "chop nothing", "serve nothing"
    board = "Currently you are standing in front of the cutting board with"
    expected = [
        (
            "There is a tomato on the counter. Currently you have nothing in hand.",
            ("pick up the tomato", "take the bowl", walk, serve, chop),
        ),
        (
            "Currently you have an unchopped tomato in hand.",
            ("pick up the tomato", "take the bowl", "put the tomato on the cutting board", "serve the dish", chop),
        ),
        (
            f"There is an unchopped tomato on the cutting board. There is the serving hatch. {board} nothing in hand.",
            ("pick up the tomato", "take the bowl", walk, serve, "chop the tomato"),
        ),
        (
            f"There is a chopped tomato on the cutting board. There is the serving hatch. {board} nothing in hand.",
            ("pick up the tomato", "take the bowl", walk, serve, chop),
        ),
        (
            f"The cutting board is empty. There is the serving hatch. {board} a chopped tomato in hand.",
            ("pick up the tomato", "take the bowl", "put the tomato on the cutting board", "serve the dish", chop),
        ),
        (
            "Currently you have a bowl with chopped tomato in hand.",
            (
                "put the tomato in the bowl",
                "take the bowl",
                "put the bowl on the cutting board",
                "serve the dish",
                chop,
            ),
        ),
    ]
    for (utterance, steps), (seen, listed) in zip(TOMATO, expected, strict=True):
        assert game.observe() == f"{seen} {GOAL}"
        assert game.actions() == listed
        assert game.outcome() == {SEAT: 0.0} and game.closing() == {}
        before = game.kitchen.steps
        step = game.step(utterance)
        assert game.kitchen.steps - before == steps
        bonus = {"chop the tomato": 0.2, "serve the dish": 1.0}.get(utterance, 0.0)
        # 0.001 a step, the n-th of them times 0.99^n; the bonus comes with the last step
        assert isclose(step.rewards[SEAT], -0.001 * (1 - 0.99**steps) / 0.01 + bonus * 0.99 ** (steps - 1))
        assert step.executable and not step.truncated
    assert step.terminated and game.seat is None and game.outcome() == {SEAT: 1.0}
    assert step.caption == "the agent serves the dish, and it is the right one"
    closing = "The cutting board is empty. There is the serving hatch."
    hatch = "Currently you are standing in front of the serving hatch with nothing in hand."
    assert game.closing() == {SEAT: f"{closing} {hatch} {GOAL}"}
    with pytest.raises(RuntimeError, match="over"):
        game.step("take the bowl")


@pytest.mark.parametrize(("task", "total"), [("tomato_salad", 1.2 - 0.028), ("tomato_lettuce_salad", 1.4 - 0.045)])
def test_without_the_discount_a_turn_pays_the_plain_sum(task, total):
    game, earned = game_of(task, discount=1.0), 0.0
    for utterance, steps in WAYS[task]:
        before = game.kitchen.steps
        earned += paid(game, utterance)
        assert game.kitchen.steps - before == steps
    assert game.outcome() == {SEAT: 1.0} and isclose(earned, total)


# --- the rules ----------------------------------------------------------------------------


def test_nothing_but_a_listed_action_does_anything():
    for said in (
        "",
        "pick up a tomato",
        "get tomato",
        "pick up the tomato and chop it",
        "PICK UP THE TOMATO!",
        "x" * 10**6,
    ):
        game = game_of()
        before = game.kitchen.situation()
        step = game.step(said)
        assert step.rewards == {SEAT: STEP} and not step.executable and game.kitchen.situation() == before
        assert game.kitchen.steps == 1
    for said in ("pick up the tomato", " Pick up the TOMATO. ", "pick up the tomato\n"):
        assert game_of().step(said).executable


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=50), st.sampled_from(TASKS))
def test_any_text_is_taken(text, task):
    game = game_of(task)
    listed = {action for action in game.actions()}
    step = game.step(text)
    assert step.rewards[SEAT] <= 0 and (not step.executable or text.strip().removesuffix(".").strip().lower() in listed)


def test_what_comes_to_nothing_waits_one_step():
    game = game_of()
    for said in ("chop nothing", "chop nothing"):
        step = game.step(said)
        assert step.rewards == {SEAT: STEP} and not step.executable and "nothing comes of it" in step.caption
    assert game.step("serve nothing").executable, "it walks to the hatch"
    assert game.step("serve nothing").rewards == {SEAT: STEP}
    assert game.kitchen.steps == 3 + 5


def test_chopping_pays_once_however_often_it_is_done():
    """Serve the chopped tomato as it is: it goes back whole, costs 0.1, and earns no second 0.2."""
    game, rewards = game_of(discount=1.0, steps=1000), []
    for _ in range(5):
        for said in ("pick up the tomato", "put the tomato on the cutting board", "chop the tomato"):
            rewards.append(round(paid(game, said), 6))
        paid(game, "pick up the tomato")
        assert isclose(paid(game, "serve the dish"), -0.1 - 3 * 0.001)
        assert game.kitchen.at == list(game.room.homes) and game.kitchen.chops == [0]
    assert [reward for reward in rewards if reward > 0] == [0.2 - 0.003]


@pytest.mark.parametrize("task", TASKS)
def test_no_episode_earns_more_than_its_recipe(task):
    rng = random.Random(f"greed {task}")
    for seed in range(150):
        game, earned = game_of(task, seed, discount=1.0), 0.0
        while game.seat:
            step = game.step(rng.choice(game.actions()))
            earned += step.rewards[SEAT]
            assert step.terminated == (game.outcome()[SEAT] == 1.0)
        assert earned <= 0.2 * len(game.room.needed) + 1.0 - 0.028


def test_only_the_right_dish_is_right():
    """A bowl with the onion in it, one without the lettuce, an empty one, food without a bowl."""
    chop = {
        food: (f"pick up the {food}", f"put the {food} on the {board} cutting board", f"chop the {food}")
        for food, board in (("tomato", "first"), ("lettuce", "first"), ("onion", "second"))
    }
    served = "serve the dish"
    wrong = [
        ("take the bowl", served),
        ("pick up the tomato", served),
        (*chop["tomato"], "take the bowl", "put the tomato in the bowl", served),
        (*chop["onion"], "take the bowl", "put the onion in the bowl", served),
        (*chop["tomato"], *chop["onion"], "pick up the tomato", "take the bowl", "put the onion in the bowl", served),
    ]
    for way in wrong:
        game = game_of("tomato_lettuce_salad", discount=1.0)
        *before, last = [game.step(said) for said in way]
        assert all(step.executable for step in before), way
        assert -0.1 - 0.02 < last.rewards[SEAT] < -0.1 and last.executable and not last.terminated
        assert game.kitchen.at == list(game.room.homes) and game.kitchen.hand == NOTHING
        assert set(game.kitchen.chops) == {0}
    game = game_of("tomato_lettuce_salad", discount=1.0)
    assert max(paid(game, said) for said in chop["onion"]) < 0, "nobody needs it"


def test_a_macro_only_walks_where_there_is_nothing_to_do():
    game = game_of("tomato_lettuce_salad")
    assert steps_of(game, "take the bowl") == 6, "to (5,5), touch (6,5)"
    assert steps_of(game, "take the bowl") == 1, "it is in hand"
    assert steps_of(game, "put the tomato in the bowl") == 4, "up to (1,5): it is whole"
    assert steps_of(game, "put the tomato in the bowl") == 1
    assert steps_of(game, "put the bowl on the second cutting board") == 6, "to (2,1), touch (2,0)"
    assert steps_of(game, "pick up the lettuce") == 6, "to (1,5), touch (1,6)"
    assert steps_of(game, "take the bowl") == 5, "to (2,1): the lettuce is whole"
    assert steps_of(game, "put the lettuce on the second cutting board") == 1, "in vain: the bowl is there"
    assert steps_of(game, "put the lettuce on the first cutting board") == 2
    assert steps_of(game, "take the bowl") == 2
    game = game_of()
    play = ("pick up the tomato", "put the tomato on the cutting board", "take the bowl", "put the tomato in the bowl")
    assert [steps_of(game, said) for said in play] == [2, 5, 9, 8]
    assert "chop nothing" in game.actions() and steps_of(game, "chop nothing") == 1, "with the bowl in hand"
    game = game_of()
    assert [steps_of(game, said) for said in play[:2]] == [2, 5]
    assert steps_of(game, "pick up the tomato") == 1 and game.kitchen.hand == NOTHING, "whole, it stays on the board"


def at_cell(kitchen: Kitchen, row: int, column: int) -> int:
    return row * kitchen.room.width + column


def test_whole_food_never_gets_into_the_bowl_and_full_hands_do_not_chop():
    kitchen = kitchen_of("tomato_lettuce_salad")
    tomato, lettuce, _, bowl = range(4)
    kitchen.cook, kitchen.hand, kitchen.at[bowl] = at_cell(kitchen, 1, 5), bowl, IN_HAND
    assert kitchen.act(UP) == STEP and kitchen.at[tomato] == kitchen.room.homes[tomato]
    kitchen.cook, kitchen.at[lettuce] = at_cell(kitchen, 1, 1), kitchen.room.boards[0]
    for _ in range(4):
        assert kitchen.act(LEFT) == STEP
    assert kitchen.chops == [0, 0, 0] and kitchen.at[lettuce] == kitchen.room.boards[0] and kitchen.hand == bowl


def test_chopped_food_and_the_bowl_meet_whoever_is_held():
    for held_is_bowl in (True, False):
        kitchen = kitchen_of("tomato_salad")
        tomato, bowl = 0, 1
        held, lying = (bowl, tomato) if held_is_bowl else (tomato, bowl)
        kitchen.cook, kitchen.chops[tomato], kitchen.hand = at_cell(kitchen, 2, 1), CHOPS, held
        kitchen.at[held], kitchen.at[lying] = IN_HAND, at_cell(kitchen, 2, 0)
        assert kitchen.act(LEFT) == STEP
        assert kitchen.at[tomato] == IN_BOWL and kitchen.hand == (bowl if held_is_bowl else NOTHING)
        assert kitchen.act(LEFT) == STEP
        assert kitchen.hand == (NOTHING if held_is_bowl else bowl), "put down, or taken"


def test_what_comes_back_to_a_place_that_is_taken_goes_to_the_next_one():
    kitchen = kitchen_of("tomato_salad")
    tomato = 0
    kitchen.at = [IN_HAND, kitchen.room.homes[tomato]]
    kitchen.hand, kitchen.cook = tomato, at_cell(kitchen, 3, 1)
    assert isclose(kitchen.act(LEFT), STEP + WRONG)
    assert kitchen.at[tomato] == at_cell(kitchen, 1, 6), "clockwise from (0,5), past the corner that nobody reaches"


@pytest.mark.parametrize("task", TASKS)
def test_no_thing_is_lost_or_in_two_places(task):
    rng = random.Random(f"chaos {task}")
    kitchen, served, wrong = kitchen_of(task), 0, 0
    for _ in range(60_000):
        reward = kitchen.act(rng.randrange(5))
        places = [place for place in kitchen.at if place >= 0]
        assert len(places) == len(set(places)) and not set(places) & kitchen.room.floor
        assert (kitchen.hand == NOTHING) == (IN_HAND not in kitchen.at) and kitchen.at.count(IN_HAND) <= 1
        assert all(kitchen.chopped(food) for food, place in enumerate(kitchen.at) if place == IN_BOWL)
        gains = {STEP, STEP + CHOPPED, STEP + WRONG, STEP + SERVED}
        assert min(abs(reward - gain) for gain in gains) < 1e-12
        wrong += reward < STEP
        if kitchen.served:
            assert kitchen.at.count(GONE) == len(kitchen.room.needed) + 1
            served += 1
            kitchen.begin()
    assert wrong > 10 and (served > 0 or task == "tomato_lettuce_salad")


# --- the episode --------------------------------------------------------------------------


def test_the_clock_cuts_an_episode_off_in_the_middle_of_a_turn():
    game = game_of(steps=4)
    game.step("pick up the tomato")
    step = game.step("put the tomato on the cutting board")
    assert step.truncated and not step.terminated and game.seat is None and game.kitchen.steps == 4
    assert isclose(step.rewards[SEAT], -0.001 - 0.00099) and game.outcome() == {SEAT: 0.0}
    assert game.closing()[SEAT].startswith("Currently you have an unchopped tomato in hand.")
    game = game_of(steps=28)
    assert [game.step(said) for said, _ in TOMATO][-1].terminated, "the last step may be the right one"
    game = game_of()
    while game.seat:
        step = game.step("chop nothing")
    assert game.kitchen.steps == 200 == game.horizon and step.truncated


@pytest.mark.parametrize("task", TASKS)
def test_an_episode_goes_on_from_where_it_was_saved(task):
    one, other = game_of(task, 5), make_game("overcooked", {"task": task})
    rng = random.Random("save")
    while one.seat:
        other.reset(99)
        other.restore(one.save())
        assert (other.observe(), other.actions(), other.save()) == (one.observe(), one.actions(), one.save())
        said = rng.choice(one.actions())
        assert other.step(said) == one.step(said)


def test_waiting_is_a_primitive_step_too():
    kitchen = kitchen_of("tomato_salad")
    before = kitchen.situation()
    assert kitchen.act(WAIT) == STEP and kitchen.situation() == before and kitchen.steps == 1


def test_the_kitchen_takes_fifty_thousand_steps_a_second():
    kitchen, rng = kitchen_of("tomato_lettuce_salad"), random.Random(0)
    moves = [rng.randrange(4) for _ in range(50_000)]
    started = time.process_time()
    for move in moves:
        kitchen.act(move)
    assert time.process_time() - started < 1.0


def strength(task: str, player: str, episodes: int) -> tuple[float, float]:
    """Share of dishes served, and mean return."""
    game, one, won, earned = (
        make_game("overcooked", {"task": task}),
        make_player("overcooked", player, {"task": task}),
        0,
        0,
    )
    for seed in range(episodes):
        game.reset(seed)
        one.reset(seed)
        while game.seat:
            earned += paid(game, one.reply(game.observe(), game.actions()))
        won += game.outcome()[SEAT]
    return won / episodes, earned / episodes


def test_the_players_have_their_stated_strength():
    assert strength("tomato_salad", "expert", 5) == (1.0, pytest.approx(1.1102837966825794))
    assert strength("tomato_lettuce_salad", "expert", 5) == (1.0, pytest.approx(1.338102019111256))
    assert 0.50 < strength("tomato_salad", "mediocre", 400)[0] < 0.66
    assert 0.36 < strength("tomato_lettuce_salad", "mediocre", 400)[0] < 0.52
    assert 0.37 < strength("tomato_salad", "random", 400)[0] < 0.53
    assert strength("tomato_lettuce_salad", "random", 400)[0] < 0.04


@pytest.mark.parametrize(
    "options",
    [
        {"task": "soup"},
        {"task": 3},
        {"steps": 0},
        {"discount": 0.0},
        {"discount": "high"},
        {"shuffle": 1},
        {"menu": "no"},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=f"game option {next(iter(options))}="):
        make_game("overcooked", options)
