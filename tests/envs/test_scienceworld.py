"""ScienceWorld beside its own package."""

from __future__ import annotations

import pytest

from envs.game import Game
from envs.registry import make_game, make_player
from envs.worlds.java.following import plain
from envs.worlds.scienceworld.settings import TASKS
from tests.support.worlds import needs

pytestmark = needs("scienceworld")
PAINT = "chemistry-mix-paint-secondary-color"


def made(**options) -> Game:
    return make_game("scienceworld", options)


@pytest.fixture(scope="module")
def bare():
    from scienceworld import ScienceWorldEnv

    world = ScienceWorldEnv()
    yield world
    world.close()


def lines(*texts: str) -> list[str]:
    """Of what stands where: the package tells it in an order of its own each time; here it is always the same."""
    return sorted(line.partition(": ")[2] or line for text in texts for line in plain(text).split("\n"))


def test_an_episode_is_that_of_the_bare_package(bare):
    """Commands that are understood, and such that are not."""
    bare.load(PAINT, 27, "openDoors")
    assert 27 in bare.get_variations_test()
    seen, info = bare.reset()
    game = made(split="test", simplifications="openDoors", show_scene=True)
    game.reset(9)  # nine test variations: the tenth seed is the first one again
    first = game.observe()
    assert lines(first) == lines(bare.get_task_description(), seen, info["look"], info["inv"])
    for said in (
        "sing a song",
        "Action: look around.",
        "go to hallway",
        "focus on my left ear",
        "wait1",
        "look in room",
    ):
        seen, reward, _, info = bare.step(said.removeprefix("Action: ").removesuffix("."))
        step = game.step(said)
        assert step.executable == (said not in ("sing a song", "focus on my left ear", "look in room")), said
        assert lines(game.observe()) == lines(seen, info["look"], info["inv"]), said
        assert step.rewards.get("adventurer", 0.0) == pytest.approx(reward / 100)
    game.reset(0)
    assert game.observe() == first


def test_the_package_s_own_way_scores_100(worlds_cache):
    options = {"split": "test", "turns": 60}
    game, player = made(**options), make_player("scienceworld", "gold", options)
    game.reset(1), player.reset(0)
    paid = 0.0
    while game.seat is not None:
        paid += game.step(player.reply(game.observe(), ())).rewards.get("adventurer", 0.0)
    assert game.outcome() == {"adventurer": 1.0} and paid == pytest.approx(1.0)
    assert game.facts() == {"task": f"{PAINT}, variation 28 of test", "score": "100"}


def test_a_simulator_that_has_found_a_solution_plays_no_other_episode():
    """The package's is many times slower from then on."""
    from envs.worlds.scienceworld.world import World

    world = World()
    asked = {"task": PAINT, "split": "test", "simplifications": "", "listed": False, "scene": False, "seed": 0}
    for number, gold in enumerate((False, True, False)):
        assert "is" in world.ask(number, "begin", asked | {"gold": gold})
    solved = world.playing[1]
    for number in range(3):
        world.leave(number)
    assert len(world.idle) == 2 and solved not in world.idle
    world.machine.gateway.shutdown()


def test_a_mistake_that_cannot_be_mended_ends_the_episode_and_the_task_cannot_be_reset():
    game = made(task="find-plant", split="dev", listed=True)
    game.reset(0)
    assert len(game.actions()) > 100 and "reset task" not in game.actions()
    assert not game.step("reset task").executable
    step = game.step("focus on agent")
    assert step.terminated and step.rewards["adventurer"] <= -1
    assert game.outcome() == {"adventurer": 0.0} and game.facts()["score"] == "-100"


def test_the_tasks_are_those_of_the_package(bare):
    assert set(TASKS) == set(bare.task_names)
    bare.load("find-animal", 0, "")
    assert len(bare.get_variations_test()) == TASKS["find-animal"]


@pytest.mark.parametrize(
    "options, line",
    [
        ({"task": "cook"}, "task='cook' must be one of: boil, melt"),
        ({"split": "all"}, "split='all' must be one of: train, dev, test"),
        ({"simplifications": "simple"}, "simplifications='simple' must be one of: easy, teleportAction"),
        (
            {"task": "power-component", "simplifications": ["openDoors", "easy"]},
            "simplifications='easy': power-component",
        ),
        ({"listed": 1}, "listed=1 must be true or false"),
    ],
)
def test_a_bad_option_is_one_line(options, line):
    with pytest.raises(ValueError) as found:
        made(**options)
    assert str(found.value).startswith(f"game option {line}")
