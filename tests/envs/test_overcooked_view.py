"""Overcooked: what is seen and listed, and in which words."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from envs.overcooked.kitchen import (
    CHOPS,
    SIGHT,
    TASKS,
)
from envs.overcooked.macros import macros_of, phrase
from envs.overcooked.words import description
from envs.registry import make_player
from tests.support.kitchens import GOAL, game_of, kitchen_of


def test_what_is_out_of_sight_changes_neither_the_text_nor_the_actions():
    rng, kitchen, hidden_things = random.Random("sight"), kitchen_of("tomato_lettuce_salad"), 0
    counters = kitchen.room.around
    for _ in range(20_000):
        kitchen.act(rng.randrange(4))
        if kitchen.served:
            kitchen.begin()
        row, column = divmod(kitchen.cook, kitchen.room.width)
        far = [
            cell
            for cell in counters
            if max(abs(cell // 7 - row), abs(cell % 7 - column)) > SIGHT and cell not in kitchen.at
        ]
        text = description(kitchen.room, *kitchen.situation())
        names = [phrase(kitchen, macro) for macro in macros_of(kitchen.room)]
        for thing, place in enumerate(kitchen.at):
            if place >= 0 and max(abs(place // 7 - row), abs(place % 7 - column)) > SIGHT:
                hidden_things += 1
                at, chops = list(kitchen.at), list(kitchen.chops)
                kitchen.at[thing] = far.pop()
                if thing != kitchen.room.bowl:
                    kitchen.chops[thing] = CHOPS - kitchen.chops[thing]
                assert description(kitchen.room, *kitchen.situation()) == text
                assert [phrase(kitchen, macro) for macro in macros_of(kitchen.room)] == names
                kitchen.at, kitchen.chops = at, chops
    assert hidden_things > 10_000


def test_the_window_is_five_by_five():
    game = game_of("tomato_lettuce_salad")
    assert game.observe().startswith(
        "There is a tomato on the counter. There is a lettuce on the counter. There is an onion on the counter. "
        "Currently you have nothing in hand. To serve"
    )
    game.step("walk to the first cutting board")
    assert game.observe().startswith(
        "The first cutting board is empty. The second cutting board is empty. There is the serving hatch. "
        "Currently you are standing in front of the first cutting board with nothing in hand. To serve"
    )


def test_the_place_in_the_list_gives_nothing_away():
    places = Counter(game_of(seed=seed).actions().index("pick up the tomato") for seed in range(2000))
    assert set(places) == set(range(5)) and all(330 < count < 470 for count in places.values())
    assert {game_of(seed=seed, shuffle=False).actions()[0] for seed in range(20)} == {"pick up the tomato"}
    assert game_of(seed=-1).actions() != game_of(seed=1).actions()


def test_the_menu_names_what_is_listed():
    game = game_of(menu=True, shuffle=False)
    menu = "You can: pick up the tomato; take the bowl; walk to the cutting board; serve nothing; chop nothing."
    assert game.observe() == f"There is a tomato on the counter. Currently you have nothing in hand. {menu} {GOAL}"


@pytest.mark.parametrize("menu", [False, True])
def test_both_tasks_share_one_language_that_holds_every_word(menu):
    words = {
        task: {word for sentence in game_of(task, menu=menu).language() for word in sentence.lower().split()}
        for task in TASKS
    }
    known = words["tomato_salad"]
    assert known == words["tomato_lettuce_salad"] and len(known) < 100
    for task in TASKS:
        for player in ("expert", "mediocre", "random"):
            for seed in range(20):
                game, seen = game_of(task, seed, menu=menu), []
                one = make_player("overcooked", player, {"task": task})
                one.reset(seed)
                while game.seat:
                    seen += [game.observe(), *game.actions()]
                    game.step(one.reply(game.observe(), game.actions()))
                assert {word for text in [*seen, *game.closing().values()] for word in text.lower().split()} <= known
