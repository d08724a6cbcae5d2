"""Episodes of TextArena do not depend on what was played before."""

from __future__ import annotations

import json
import random

import pytest

from envs.doors.inward.textarena import TextArenaGame
from tests.support.imported_games import play

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries, about themselves
SEEDS = range(8)


def dealt(game: TextArenaGame, seed: int) -> str:
    game.reset(seed)
    return game.observe()


def test_cards_are_dealt_alike_in_a_new_object_in_a_used_one_and_in_another_order():
    new = [dealt(TextArenaGame(id="KuhnPoker-v0"), seed) for seed in SEEDS]
    used = TextArenaGame(id="KuhnPoker-v0")
    play(used, "random", 50)
    assert [dealt(used, seed) for seed in SEEDS] == new
    assert [dealt(used, seed) for seed in reversed(SEEDS)] == new[::-1]
    assert len(set(new)) > 1


def test_an_episode_of_a_used_object_is_restored_by_another():
    used = TextArenaGame(id="KuhnPoker-v0")
    for seed in SEEDS:
        play(used, "random", seed)
        other = TextArenaGame(id="KuhnPoker-v0")
        other.restore(json.loads(json.dumps(used.save())))
        assert other.outcome() == used.outcome() and other.facts() == used.facts()


@pytest.mark.timeout(60)
def test_a_board_that_is_filled_once_is_a_new_one_in_each_episode():
    game = TextArenaGame(id="Stratego-v0")
    first = dealt(game, 1)
    assert dealt(game, 2) != first and dealt(game, 1) == first


def test_what_a_game_draws_when_it_is_made_is_the_same_in_every_process():
    seen = set()
    for state in range(4):
        random.seed(state)
        seen.add(dealt(TextArenaGame(id="Taboo-v0-full"), 3))
    assert len(seen) == 1


def test_a_game_that_cannot_be_copied_is_made_anew():
    game = TextArenaGame(id="KuhnPoker-v0")
    copied = [dealt(game, seed) for seed in SEEDS]
    game._pristine.env.connection = (each for each in ())  # a generator cannot be copied
    assert [dealt(game, seed) for seed in SEEDS] == copied
