"""Environments of verifiers as games of Parley; the package lives in an environment of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.commands.cli import main
from envs.doors.inward.imported import WorldError
from envs.doors.inward.verifiers import VerifiersGame
from tests.support.ended import gone
from tests.support.imported_games import play
from tests.support.other_pythons import OUTSIDE, python_with

pytestmark = pytest.mark.timeout(900)  # the environment may have to be made first
VERSION = "0.4.0"


@pytest.fixture(scope="module")
def python():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(OUTSIDE))
        yield python_with("verifiers", VERSION)


@pytest.fixture
def sums(python):
    made = VerifiersGame(id="parley_sums", python=python, seconds=60)
    yield made
    made.close()


def answer(game: VerifiersGame) -> str:
    return str(2 * int(game.observe().partition(" ")[0]))


def test_a_taskset_is_played_by_hand(sums):
    assert sums.seats == ("agent",) and sums.seat is None
    asked = set()
    for seed in range(6):
        sums.reset(seed)
        assert sums.seat == "agent" and sums.briefing("agent") == "Answer with a number."
        asked.add(sums.observe())
        right = seed % 2 == 0
        step = sums.step(answer(sums) if right else "no idea")
        assert step.terminated and sums.seat is None and sums.outcome() == {"agent": float(right)}
        assert step.rewards == ({"agent": 1.0} if right else {})
    assert len(asked) > 2 and all(each.endswith(" =") for each in asked)


def test_tasks_and_settings_are_chosen(python):
    game = VerifiersGame(id="parley_sums", python=python, settings={"largest": 3}, tasks=1, first=2)
    for seed in range(3):
        game.reset(seed)
        assert game.observe() == "2 + 2 ="
    game.close()
    with pytest.raises(ValueError, match="cannot be made: ValueError: it has no task number 50"):
        VerifiersGame(id="parley_sums", python=python, first=50)


def test_two_agents_talk_in_turns_and_see_what_is_theirs(python):
    game = VerifiersGame(id="parley_duel", python=python, tasks=1)
    assert game.seats == ("chooser", "guesser")
    for guesses, found in ((("1", "2", "4"), False), (("1", "3"), True)):
        game.reset(0)
        assert (game.seat, game.observe()) == ("chooser", "choose a number from 1 to 5")
        game.step("3")
        assert (game.seat, game.observe()) == ("guesser", "guess a number from 1 to 5")
        assert game.briefing("guesser") == "Three guesses." and "3" not in game.observe().partition("from")[0]
        for number, guess in enumerate(guesses):
            step = game.step(guess)
            assert game.seat is None or game.observe() == f"wrong, {2 - number} left"
        assert step.terminated and game.outcome() == {"chooser": float(not found), "guesser": float(found)}
    assert play(game, "random", 3)[-1][-1].terminated
    game.close()


def test_a_saved_episode_goes_on_and_one_that_is_left_is_nobodys(python):
    game, other = (VerifiersGame(id="parley_duel", python=python) for _ in range(2))
    game.reset(3)
    for said in ("5", "1"):
        game.step(said)
    other.reset(4)
    other.restore(json.loads(json.dumps(game.save())))
    for each in (game, other):
        assert each.seat == "guesser" and each.step("5").terminated
        assert each.outcome() == {"chooser": 0.0, "guesser": 1.0}
        each.close()


def test_turns_cut_an_episode(python):
    game = VerifiersGame(id="parley_duel", python=python, turns=2)
    game.reset(0)
    game.step("1")
    assert game.step("2").truncated and game.seat is None
    started = time.monotonic()
    game.reset(0)
    assert game.observe().startswith("choose a number"), "the process goes on to the next one"
    assert time.monotonic() - started < 8, "nobody waits for the episode that was left"
    game.close()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("crash", "environment parley_sums: .*it crashed"),
        ("die", "environment parley_sums: its process ended with code 7"),
        ("hang", "environment parley_sums: no answer within 5 s, .* raise the game option seconds"),
        ("nan", "parley_sums"),
    ],
)
def test_a_world_that_fails_costs_its_episode_and_nobody_elses(python, sums, said, message):
    bad = VerifiersGame(id="parley_sums", python=python)
    for game in (bad, sums):
        game.reset(0)
    bad.seconds = 5
    started = time.monotonic()
    with pytest.raises(WorldError, match=message) as failed:
        bad.step(said)
    assert time.monotonic() - started < 30 and "\n" not in str(failed.value)
    assert sums.step(answer(sums)).rewards == {"agent": 1.0}
    bad.seconds = 60
    bad.reset(1)
    assert bad.step(answer(bad)).rewards == {"agent": 1.0}, "the next episode has a process that works"
    bad.close()


def test_nothing_is_left_of_a_process_whose_parent_is_gone(python):
    code = (
        "import sys, time\nfrom envs.doors.inward.verifiers import VerifiersGame\n"
        f"game = VerifiersGame(id='parley_sums', python={python!r})\ngame.reset(0)\n"
        "print(game._host.process.pid, flush=True)\ngame.step('hang')\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    time.sleep(1)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert gone(child, 30)


def test_what_a_taskset_has_started_ends_with_its_process(python):
    bad = VerifiersGame(id="parley_sums", python=python, seconds=5)
    bad.reset(0)
    with pytest.raises(WorldError, match="no answer within 5 s"):
        bad.step("leave")
    assert not any(b"sleep\x00617" in each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline"))
    bad.close()


def test_it_is_played_at_the_terminal(python, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("0\nundo\n1\nundo\n2\n3\n4\n"))
    assert (
        main(["play", "verifiers", "id=parley_duel", f"python={python}", "--against", "random", "--seat", "guesser"])
        == 0
    )
    shown = capsys.readouterr().out
    assert "a world that talks" not in shown and "over after 4 turns" in shown and shown.count("is taken back") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "id='' must be the name of a taskset"),
        ({"id": 3}, "id=3 must be text"),
        ({"id": "x", "seconds": 0}, "seconds=0"),
        ({"id": "x", "tasks": 0}, "tasks=0"),
        (
            {"id": "x", "python": "/nowhere/python"},
            "python='/nowhere/python' cannot be run.*VENV/bin/pip install verifiers",
        ),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        VerifiersGame(**options)


def test_a_python_without_the_package_is_named_with_the_way_to_get_it(capsys):
    assert main(["play", "verifiers", "id=anything"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"which {sys.executable} does not have: python -m venv VENV" in error


def test_a_taskset_that_is_not_there_is_refused(python):
    with pytest.raises(ValueError, match="id='no_such_taskset' cannot be made: ModuleNotFoundError: taskset"):
        VerifiersGame(id="no_such_taskset", python=python)
    with pytest.raises(ValueError, match=r"id='parley_sums' cannot be made: .*colour"):
        VerifiersGame(id="parley_sums", python=python, settings={"colour": 1})
