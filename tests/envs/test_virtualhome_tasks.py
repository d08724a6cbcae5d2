"""VirtualHome: tasks of one's own, with things in things, and those that are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from envs.registry import game_class, make_game, make_player
from envs.settings import GameSettings
from envs.virtualhome.home import HELD, NOWHERE, actions_of, after, start_of
from envs.virtualhome.plan import best_actions
from envs.virtualhome.task import TaskError, task_named
from learners.embedded.build import policy_key
from learners.settings import EmbeddedSettings
from tests.support.homes import SEAT, done, fails, fewest_turns, game_of, success

OWN = """
aim = "get the ring"
rooms = ["hall", "attic"]
start = "hall"
goal = ["you hold ring", "lamp is off", "you in attic"]

[things.chest]
at = "attic"
can = ["open", "put in"]

[things.box]
at = "in chest"
can = ["grab", "open", "put in"]

[things.ring]
at = "in box"
can = ["grab"]

[things.shelf]
at = "attic"
can = ["put on"]

[things.lamp]
at = "on shelf"
can = ["switch", "grab"]
on = true
"""


def own(tmp_path, text: str) -> str:
    path = tmp_path / "own.toml"
    path.write_text(text)
    return str(path)


def test_a_task_of_ones_own(tmp_path):
    """A ring in a closed box in a closed chest; the box can be carried about with the ring in it."""
    game = game_of(own(tmp_path, OWN))
    assert game.observe().startswith(
        "There are two rooms: the hall and the attic. You are in the hall. You notice nothing"
    )
    done(game, "walk to the attic", "walk to the chest")
    assert "You notice a chest and a shelf." in game.observe() and "box" not in game.observe()
    done(game, "open the chest")
    assert "The box is in the chest. The box is closed." in game.observe() and "the ring." not in game.observe()
    done(game, "grab the box", "walk to the hall", "open the box")
    assert "The ring is in the box." in game.observe() and "grab the ring" in game.actions()
    assert not any(action.startswith("put the box in the box") for action in game.actions())
    done(game, "grab the ring")
    assert game.save()["home"]["places"].count(HELD) == 2
    done(game, "walk to the attic", "walk to the shelf")
    assert "The lamp is on the shelf. The lamp is on." in game.observe()
    assert fails(game, "turn off the lamp"), "both hands are full"
    done(game, "put the box on the shelf")
    last = game.step("turn off the lamp")
    assert last.terminated and last.rewards == {SEAT: 1.0}
    assert best_actions(game.task)[start_of(game.task)][0] == fewest_turns(game.task.source) < 10
    assert success(game.task.source, "expert", 3) == 1.0
    words = {word for sentence in game.language() for word in sentence.lower().split()}
    assert {"attic.", "pancake", "ring"} <= words


def test_opening_needs_a_free_hand_and_closing_none(tmp_path):
    game = game_of(own(tmp_path, OWN))
    done(game, "walk to the attic", "walk to the chest", "open the chest", "grab the box", "walk to the shelf")
    done(game, "grab the lamp", "walk to the chest")
    assert fails(game, "open the box")
    done(game, "close the chest")
    assert fails(game, "open the chest")


def test_nobody_is_close_to_what_is_shut_away(tmp_path):
    game = game_of(own(tmp_path, OWN))
    done(game, "walk to the attic", "walk to the chest", "open the chest", "walk to the shelf", "walk to the box")
    assert "You are close to the box." in game.observe()
    done(game, "close the chest")
    assert "You are close to the chest." in game.observe() and "box" not in game.observe()


def test_a_box_does_not_go_into_what_is_in_it(tmp_path):
    bag = '\n[things.bag]\nat = "in box"\ncan = ["grab", "put in"]\n'
    game = game_of(own(tmp_path, OWN + bag))
    done(game, "walk to the attic", "walk to the chest", "open the chest", "grab the box", "open the box")
    assert all(
        after(game.task, game._home, a) is None for a in actions_of(game.task) if a.phrase == "put the box in the bag"
    )
    done(game, "grab the bag", "put the box in the bag")
    assert game._home.near != NOWHERE


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('aim = "get the ring"', "", "aim must be a text"),
        ('aim = "get the ring"', 'aim = "x"\ncolour = "red"', "unknown key 'colour'"),
        ('rooms = ["hall", "attic"]', 'rooms = ["hall"]', "at least two"),
        ('rooms = ["hall", "attic"]', 'rooms = ["hall", "attic", "attic"]', "'attic' is used twice"),
        ('start = "hall"', 'start = "cellar"', "start: there is no 'cellar'"),
        ('"you hold ring"', '"you hold sword"', "goal 'you hold sword': there is no 'sword'"),
        ('"you hold ring"', '"you hold chest"', "'chest' cannot 'grab'"),
        ('"you hold ring"', '"ring shines"', "goal 'ring shines' is no fact"),
        ('"you hold ring"', '"ring in shelf"', "'shelf' cannot 'put in'"),
        ('"you hold ring"', '"ring is open"', "'ring' cannot 'open'"),
        ('at = "in chest"', 'at = "in ring"', "'ring' cannot 'put in'"),
        ('at = "in chest"', 'at = "in box"', "'box' is in or on itself"),
        ('at = "in chest"', 'at = "nowhere"', "there is no 'nowhere'"),
        ('can = ["put on"]', 'can = ["put on", "eat"]', "can 'eat', which is none of"),
        ('can = ["put on"]', 'can = ["put on", "put in"]', "not both"),
        ("on = true", "open = true", "said to be open"),
        ("on = true", "on = 1", "on must be a bool"),
        ("on = true", 'size = "big"', "unknown key 'size'"),
        ("[things.lamp]", '[things."lamp on"]', "is no name"),
        ("[things.lamp]", "[things.lamp", "not a TOML file"),
    ],
)
def test_a_task_that_cannot_be_played_is_refused_by_name(tmp_path, old, new, message):
    assert old in OWN
    path = own(tmp_path, OWN.replace(old, new, 1))
    with pytest.raises(TaskError, match=f"own.toml: .*{message}"):
        make_game("virtualhome", {"task": path})


def test_an_impossible_goal_is_refused_by_the_planner(tmp_path):
    path = own(tmp_path, OWN.replace('"you hold ring"', '"you hold ring", "you hold box", "you hold lamp"'))
    with pytest.raises(TaskError, match="no actions lead to its goal"):
        make_player("virtualhome", "mediocre", {"task": path})
    assert game_class("virtualhome").trials()[0].name == "food_preparation"


# --- several tasks ------------------------------------------------------------------------


def test_a_seed_chooses_among_the_tasks_of_a_list():
    tasks = ["food_preparation", "cheese", "entertainment"]
    game, player = make_game("virtualhome", {"task": tasks}), make_player("virtualhome", "expert", {"task": tasks})
    played = Counter()
    for seed in range(30):
        game.reset(seed)
        player.reset(1000 + seed)  # it is told nothing but what the game says
        (task,) = [name for name in tasks if task_named(name) is game.task]
        alone = game_of(task, seed)
        while game.seat:
            again = make_game("virtualhome", {"task": tasks})
            again.restore(game.save())
            assert game.observe() == alone.observe() == again.observe()
            assert game.briefing(game.seat) == alone.briefing(game.seat)
            assert game.actions() == alone.actions() == again.actions()
            said = player.reply(game.observe(), game.actions())
            assert game.step(said) == alone.step(said) == again.step(said)
        assert game.outcome() == {SEAT: 1.0} and game._turn == (12 if task == "entertainment" else 6)
        played[task] += 1
    assert min(played[task] for task in tasks) >= 4
    assert set(game.language()) == set(alone.language())


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], r"task=\[\] must be"),
        ({"cheese": 1}, "must be the name or the path of a task, or a list of them"),
        (["cheese", 3], "task=3 must be the name"),
        (["cheese", "chess"], "'chess' is neither a file nor one of"),
        (["cheese", "pizza", "cheese"], "two of them are to heat up the cheese"),
    ],
)
def test_a_list_of_tasks_that_cannot_be_played_is_refused(tasks, message):
    with pytest.raises(TaskError, match=message):
        make_game("virtualhome", {"task": tasks})


def test_files_in_a_list_of_tasks_are_part_of_what_a_policy_is_made_from(tmp_path):
    path = own(tmp_path, OWN)
    keys = set()
    for text in (OWN, OWN + "\n"):
        Path(path).write_text(text)
        keys.add(policy_key(GameSettings(name="virtualhome", options={"task": ["cheese", path]}), EmbeddedSettings()))
    assert len(keys) == 2
