"""The door to OpenEnv and a real server of it, which lives in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from envs.coroutines import Blocking
from envs.doors.inward import openenv
from envs.doors.inward.imported import WorldError
from envs.registry import make_game
from envs.text.chat import EndpointError
from tests.envs.test_doors_openenv import free_port
from tests.support.imported_games import play
from tests.support.other_pythons import OUTSIDE, python_with

pytestmark = pytest.mark.timeout(700)  # the environment may have to be made first
VERSION = "0.10.0"
ROOM = 2  # sessions at once


@contextmanager
def serving():
    python, port = python_with("openenv", VERSION), free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([python, "-P", str(OUTSIDE / "openenv_server.py"), str(port), str(ROOM)])
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urlopen(f"{url}/health", timeout=5).close()
                break
            except (URLError, OSError):
                assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
                time.sleep(0.2)
        yield url, process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url():
    with serving() as (address, _):
        yield address


@pytest.fixture
def game(url) -> Blocking:
    made = make_game("openenv", {"url": url, "seconds": 20})
    yield made
    made.close()


def test_episodes_are_played_and_seeds_fix_them(game):
    outcomes = []
    for seed in (1, 2, 3, 1):
        game.reset(seed)
        assert game.seat == "agent" and game.observe() == "a number from 1 to 9"
        while game.seat is not None:
            said = str(len(game.save()["said"]) + 1)
            step = game.step(said)
            assert step.executable
        outcomes.append((game.save()["said"], game.outcome()))
    assert outcomes[0] == outcomes[3] and len({json.dumps(each) for each in outcomes}) > 1
    assert step.terminated and play(game, "random", 5)


def test_what_the_world_refuses_costs_a_turn_and_a_saved_episode_goes_on(url, game):
    game.reset(4)
    step = game.step("crash")
    assert not step.executable and "it crashed" in game.observe()
    game.step("1")
    other = make_game("openenv", {"url": url})
    other.restore(json.loads(json.dumps(game.save())))
    assert other.observe() == game.observe() and other.save() == game.save()
    other.close()


def test_a_reward_that_is_no_number_is_named_and_the_next_episode_goes_on(game):
    game.reset(0)
    try:
        step = game.step("nan")
        assert not step.rewards, "this server writes nan as null"
    except (WorldError, EndpointError) as error:
        assert "nan" in str(error).lower()
    game.reset(1)
    assert game.step("0").executable


def test_a_server_that_is_full_or_killed_is_one_line(monkeypatch):
    monkeypatch.setattr(openenv, "RETRY_SECONDS", 0.05)
    with serving() as (address, process):
        games = [make_game("openenv", {"url": address, "seconds": 20}) for _ in range(ROOM)]
        for each in games:
            each.reset(0)
        with pytest.raises(EndpointError, match="CAPACITY_REACHED"):
            make_game("openenv", {"url": address, "seconds": 20}).reset(0)
        assert all(each.step("0").executable for each in games), "those who sit there play on"
        process.kill()
        process.wait()
        for each in games:
            with pytest.raises(EndpointError, match="ConnectionClosed") as gone:
                each.step("0")
            assert "\n" not in str(gone.value)
        with pytest.raises(EndpointError, match="start the server there, or name another with url="):
            games[0].reset(0)
