"""Adventures of TextWorld as games of Parley."""

from __future__ import annotations

import subprocess
import sys

import pytest

from envs.doors.inward.textworld import UNKNOWN, TextWorldGame
from envs.doors.inward.worlds import generated
from tests.support.imported_games import mean_outcome, play

pytestmark = [
    pytest.mark.usefixtures("worlds_cache"),
    pytest.mark.filterwarnings("ignore"),  # of the other libraries, about themselves
]


def test_an_adventure_is_won_by_the_commands_that_its_maker_knows():
    import textworld

    game = TextWorldGame(worlds=1, settings={"level": 4})
    assert game.slow, "a world is made in seconds, in which other games go on"
    path = generated("coin_collector", {"level": 4}, 0)
    commands = textworld.Game.load(str(path.with_suffix(".json"))).metadata["walkthrough"]
    assert len(commands) == 4 and commands[-1] == "take coin"
    game.reset(0)
    for number, command in enumerate(commands, 1):
        assert command in game.actions() and command in game.observe()
        step = game.step(command)
        assert step.executable and step.terminated == (number == 4) and not step.truncated
    assert step.rewards == {"adventurer": 1.0} and game.outcome() == {"adventurer": 1.0}


def test_the_score_is_paid_in_shares_and_the_interpreters_own_commands_are_out_of_reach():
    game = TextWorldGame(world="simple", worlds=1)
    played = play(game, "expert", 0)
    paid = sum(step.rewards.get("adventurer", 0) for *_, step in played)
    assert paid == pytest.approx(game.outcome()["adventurer"]) and paid > 0.8
    game.reset(0)
    here = game.actions()
    for command in ("undo", "restart", "quit", "restore", "save", "tw-print state", "look\nundo"):
        assert not game.step(command).executable
        assert game.observe().startswith(UNKNOWN) and game.actions() == here
    assert game.step(f"Thought: undo?\nAction: {here[0]}").executable


def test_worlds_are_kept_and_differ(worlds_cache):
    game = TextWorldGame(worlds=2, settings={"level": 4})
    openings = set()
    for seed in range(12):
        game.reset(seed)
        openings.add(game.observe())
    assert len(openings) == 2
    files = sorted(path.name for path in (worlds_cache / "textworld").iterdir() if path.suffix == ".z8")
    assert len([name for name in files if name.startswith("coin_collector")]) >= 2
    assert not [path for path in (worlds_cache / "textworld").iterdir() if path.is_dir()], "nothing half made is left"
    before = sorted(path.stat().st_mtime_ns for path in (worlds_cache / "textworld").iterdir())
    TextWorldGame(worlds=2, settings={"level": 4}).reset(0)
    assert sorted(path.stat().st_mtime_ns for path in (worlds_cache / "textworld").iterdir()) == before
    held_out = TextWorldGame(worlds=1, first=50, settings={"level": 4})
    held_out.reset(0)
    assert held_out.observe() not in openings


def test_a_world_of_ones_own_is_a_file():
    path = generated("coin_collector", {"level": 4}, 0)
    own, made = TextWorldGame(world=str(path)), TextWorldGame(worlds=1, settings={"level": 4})
    for game in (own, made):
        game.reset(0)
    assert own.observe() == made.observe()


def test_the_same_world_is_generated_in_every_process(tmp_path):
    code = (
        "import sys, json, os; os.environ['PARLEY_CACHE'] = sys.argv[1]\n"
        "from envs.doors.inward.worlds import generated\n"
        "print(generated('treasure_hunter', {'level': 3}, 7).with_suffix('.json').read_text())"
    )
    texts = []
    for salt in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / salt)],
            env={"PYTHONHASHSEED": salt, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert result.returncode == 0, result.stderr
        texts.append(result.stdout)
    assert texts[0] == texts[1]
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2"}, "nothing is left in the home folder"


@pytest.mark.long
def test_players_of_adventures_have_their_stated_strength():
    game = TextWorldGame(worlds=2)
    assert mean_outcome(game, "expert", 4) > 0.95
    assert 0.1 < mean_outcome(game, "mediocre", 40) < 0.65
    assert mean_outcome(game, "random", 20) < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"world": 5}, "world=5 must be text"),
        ({"world": ["simple"]}, "world=\\['simple'\\] must be text"),
        ({"world": "zork"}, "neither a .z8 file nor one of: coin_collector, cooking"),
        ({"settings": {"colour": 1}}, "coin_collector has no 'colour'; it has: level"),
        ({"settings": [1]}, "settings=\\[1\\]"),
        ({"worlds": 0}, "worlds=0"),
        ({"first": -1}, "first=-1"),
        ({"show_commands": "yes"}, "show_commands='yes'"),
    ],
)
def test_impossible_adventures_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TextWorldGame(**options)


@pytest.mark.parametrize("option", [{"settings": {"level": 1}}, {"worlds": 5}, {"first": 1}])
def test_what_is_generated_by_is_no_option_of_a_world_that_is_there(option):
    path = str(generated("coin_collector", {"level": 4}, 0))
    assert TextWorldGame(world=path).world == path
    with pytest.raises(ValueError, match=f"game option {next(iter(option))} is for worlds that are generated"):
        TextWorldGame(world=path, **option)


def test_settings_that_make_no_world_are_named():
    with pytest.raises(ValueError, match="coin_collector cannot be generated"):
        TextWorldGame(settings={"level": 0}).reset(0)
