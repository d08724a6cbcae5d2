"""ALFWorld on small games of its form: which games are played, how they are told, and what the players make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs.game import Game
from envs.outside import OutsideError
from envs.registry import make_game, make_player, trials_of
from envs.worlds.alfworld.data import SPLITS, TASKS, games
from envs.worlds.alfworld.game import NOTHING, SEAT
from envs.worlds.alfworld.names import names
from envs.worlds.alfworld.players import Goal, goal_of
from envs.worlds.alfworld.words import words_of
from tests.support.alfworld_games import write_game, write_games
from tests.support.worlds import needs

FIRST, LIGHT, CLEAN, HEAT, COOL, TWO = TASKS


def made(**options) -> Game:
    return make_game("alfworld", options)


def test_a_split_has_the_games_that_alfworld_plays_in_fixed_order(tmp_path):
    write_games(tmp_path)
    write_game(tmp_path, "train", HEAT, 7, mark="Sliced")
    write_game(tmp_path, "train", HEAT, 8, solvable=False)
    moved = write_game(tmp_path, "train", HEAT, 9).parents[1]
    moved.rename(moved.with_name("pick_and_place_with_movable_recep-Egg-Pot-Table-9"))
    found = games(tmp_path, "train", TASKS)
    assert [each.path for each in found] == sorted(each.path for each in found) and len(found) == 12
    assert {each.task for each in found} == set(TASKS) and {
        each.scene for each in games(tmp_path, "train", (TWO,))
    } == {
        "51",
        "52",
    }
    assert games(tmp_path / "json_2.1.1", "valid_seen", (LIGHT,))[0][1:] == (LIGHT, "Book", "DeskLamp", "13")
    assert {"sinkbasin 1", "cabinet 3", "heat with", "Your task is to: put some mug on shelf."} <= set(
        words_of(tmp_path)
    )


def test_missing_data_is_one_line_that_says_what_and_where_and_which_setting(tmp_path):
    for folder in (tmp_path, tmp_path / ("far" * 60)):
        with pytest.raises(
            ValueError, match=r"^game option data: no games of train in \S+: download https://\S+ "
        ) as found:
            games(folder, "train", TASKS)
        assert len(line := str(found.value)) < 300 and "\n" not in line
        assert "json_2.1.3_tw-pddl.zip" in line and line.endswith("game.options.data or ALFWORLD_DATA")
    write_game(tmp_path, "valid_seen", HEAT, 1)
    with pytest.raises(ValueError, match=f"no games of valid_seen for {TWO} in"):
        games(tmp_path, "valid_seen", (TWO,))


def test_things_have_the_numbers_of_alfworlds_transcripts():
    ids = ("cabinet_bar_2", "cabinet_bar_1", "sink_bar_1_bar_sinkbasin", "sink_bar_1", "cabinet_bar_3", "agent1")
    assert names(ids) == {
        "cabinet_bar_1": "cabinet 3",
        "cabinet_bar_2": "cabinet 2",
        "cabinet_bar_3": "cabinet 1",
        "sink_bar_1": "sink 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
    }


@pytest.mark.parametrize(
    "task, goal",
    [
        ("put a mug in shelf.", Goal("mug", "shelf")),
        ("put some vase on safe.", Goal("vase", "safe")),
        ("look at bowl under the desklamp.", Goal("bowl", "desklamp", "use")),
        ("examine the pen with the floorlamp.", Goal("pen", "floorlamp", "use")),
        ("put a clean cloth in cabinet.", Goal("cloth", "cabinet", "clean")),
        ("clean some pot and put it in fridge.", Goal("pot", "fridge", "clean")),
        ("put a hot egg in garbagecan.", Goal("egg", "garbagecan", "heat")),
        ("cool some wine and put it in shelf.", Goal("wine", "shelf", "cool")),
        ("put two candle in toilet.", Goal("candle", "toilet", count=2)),
        ("find two cd and put them in safe.", Goal("cd", "safe", count=2)),
        ("make the bed.", None),
    ],
)
def test_the_wordings_of_tasks_are_read(task, goal):
    assert goal_of(task) == goal


@needs("alfworld")
@pytest.mark.parametrize("task", TASKS)
def test_the_expert_does_every_task(task):
    game, player = made(split="valid_seen", tasks=task), make_player("alfworld", "expert")
    game.reset(0), player.reset(0)
    assert game.observe().startswith("Around you, you see a ") and "\nYour task is to: " in game.observe()
    turns = 0
    while game.seat is not None:
        said = player.reply(game.observe(), game.actions())
        step, turns = game.step(said), turns + 1
        assert step.executable and step.caption.startswith(f"the agent does this: {said}. ")
    assert step.terminated and step.rewards == {SEAT: 1.0} and game.outcome() == {SEAT: 1.0} and turns < 50
    assert game.facts()["task"] == task and game.facts()["game"].startswith(f"valid_seen/{task}-")
    assert game.facts()["scene"].endswith("3") and game.closing()[SEAT]


@needs("alfworld")
def test_an_episode_is_that_of_the_bare_package_and_can_be_restored():
    from textworld import EnvInfos
    from textworld.envs import PddlEnv

    game, player = made(tasks=HEAT, turns=6, show_commands=False), make_player("alfworld", "random")
    game.reset(1), player.reset(0)
    bare = PddlEnv(EnvInfos(admissible_commands=True, won=True))
    bare.load(str(game.game.games[1].path))
    for thing, name in names(bare._entity_infos).items():
        bare._entity_infos[thing].name = name
    state = bare.reset()
    for _ in range(6):
        assert game.observe().split() == state.feedback.rpartition("=-")[2].split()
        assert game.actions() == tuple(state.admissible_commands)
        step = game.step(said := player.reply(game.observe(), game.actions()))
        state, _, _ = bare.step(said)
    assert step.truncated and not step.terminated and game.outcome() == {SEAT: 0.0} and step.rewards == {}
    again = made(tasks=HEAT, turns=6, show_commands=False)
    again.restore(game.save())
    assert again.closing() == game.closing()


@needs("alfworld")
def test_what_cannot_be_done_makes_nothing_happen_and_costs_the_turn():
    game = made(turns=3)
    game.reset(0)
    here = game.actions()
    for said in ("fly to shelf 1", "go to shelf 9", "help\nquit"):
        step = game.step(said)
        assert not step.executable and game.observe().startswith(f"{NOTHING}\nYou can: ")
    assert step.truncated and game.actions() == here and made(turns=3).outcome() == {SEAT: 0.0}


@needs("alfworld")
def test_the_trials_play_each_game_of_a_split_once():
    assert [(each.name, each.episodes) for each in trials_of("alfworld")] == [
        ("valid_seen", 140),
        ("valid_unseen", 134),
    ]
    assert sum(SPLITS.values()) == 3827
    game, played = made(split="valid_unseen", turns=1), set()
    for seed in range(1000, 1006):
        game.reset(seed)
        game.step("inventory")
        played.add(game.facts()["game"])
    assert len(played) == 6


@needs("alfworld")
def test_a_broken_game_costs_its_episode_and_no_other(tmp_path):
    paths = [write_game(tmp_path, "train", HEAT, seed) for seed in range(3)]
    paths[0].write_text('{"solvable": true, "pddl_domain"')
    paths[1].write_text(paths[1].read_text().replace("(:goal", "(:gaol"))
    game = made(data=str(tmp_path))
    with pytest.raises(
        OutsideError, match=r"ALFWorld: reset raised ValueError: \S+/game.tw-pddl is no game of ALFWorld"
    ):
        game.reset(0)
    with pytest.raises(OutsideError, match=r"^ALFWorld: reset raised "):
        game.reset(1)
    assert game.seat is None
    game.reset(2)
    assert game.actions() and Path(game.game._found.path) == paths[2]


@needs("alfworld")
@pytest.mark.parametrize(
    "options, line",
    [
        ({"split": "test"}, "split='test' must be one of: train, valid_seen, valid_unseen"),
        ({"tasks": ["cook"]}, "tasks='cook' must be one of: pick_and_place_simple, look"),
        ({"data": 3}, "data=3 must be the path of a folder"),
        ({"turns": 0}, "turns=0 must be"),
        ({"show_commands": 1}, "show_commands=1 must be true or false"),
    ],
)
def test_a_bad_option_is_one_line(options, line):
    with pytest.raises(ValueError) as found:
        made(**options)
    assert str(found.value).startswith(f"game option {line}")
