"""The door to OpenEnv, end to end: a server in a process of its own, which speaks the protocol
over a websocket on loopback as OpenEnv's servers do.

The package openenv-core is not needed to talk to one; it cannot be installed beside Parley's
other packages (its web interface needs an older pillow).
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from envs.coroutines import Blocking, has_coroutines
from envs.doors.inward import openenv
from envs.doors.inward.openenv import OpenEnvGame
from envs.registry import make_game
from envs.text.chat import EndpointError
from tests.support.fuzz import utterances

ROOM = 3  # sessions at once
SLEEP_SECONDS = 3.0


def serve(port: int) -> None:
    """Guess a number from 1 to 9 in six tries, as OpenEnv's server base would serve it."""
    app = FastAPI()
    sessions = sleeps = 0

    def observation(text: str, reward: float | None = None, done: bool = False) -> dict:
        return {"type": "observation", "data": {"observation": {"text": text}, "reward": reward, "done": done}}

    def error(message: str, code: str) -> dict:
        return {"type": "error", "data": {"message": message, "code": code}}

    @app.get("/schema")
    def schema() -> dict:
        message = {"type": "string"}
        action = {"properties": {"message": message, "metadata": {"type": "object"}}, "required": ["message"]}
        return {"action": action, "observation": {}, "state": {}}

    @app.get("/sleeps")
    def counted() -> int:
        return sleeps

    @app.websocket("/ws")
    async def session(websocket: WebSocket) -> None:
        nonlocal sessions, sleeps
        await websocket.accept()
        if sessions >= ROOM:
            await websocket.send_json(error(f"Server at capacity: {sessions}/{ROOM}", "CAPACITY_REACHED"))
            await websocket.close()
            return
        sessions += 1
        try:
            while True:
                asked = await websocket.receive_json()
                if asked["type"] == "reset":
                    number, tries = random.Random(asked["data"]["seed"]).randint(1, 9), 6
                    answer = observation("a number from 1 to 9")
                elif set(asked["data"]) - {"message", "metadata"} or not isinstance(asked["data"].get("message"), str):
                    answer = error("Invalid message", "VALIDATION_ERROR")
                elif (said := asked["data"]["message"]) == "crash":
                    answer = error("it crashed", "EXECUTION_ERROR")
                elif said == "sleep":
                    sleeps += 1
                    await asyncio.sleep(SLEEP_SECONDS)
                elif said == "hang up":
                    await websocket.close()
                    return
                elif said == "babble":
                    answer = ["not", "the", "protocol"]
                else:
                    tries -= 1
                    right = said.strip() == str(number)
                    answer = observation("right" if right else "wrong", float(right), right or tries == 0)
                await websocket.send_json(answer)
        except WebSocketDisconnect:
            pass
        finally:
            sessions -= 1

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@contextmanager
def serving():
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.envs.test_doors_openenv", str(port)])
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url():
    with serving() as address:
        yield address


def openenv_game(**options) -> Blocking:
    return make_game("openenv", options)


@pytest.fixture
def game(url):
    made = openenv_game(url=url, seconds=10)
    yield made
    made.close()


def test_an_episode_by_hand(game):
    assert isinstance(game.game, OpenEnvGame) and has_coroutines(game.game) and game.seat is None
    game.reset(3)
    number = random.Random(random.Random("openenv 3").getrandbits(31)).randint(1, 9)
    assert game.seat == "agent" and game.observe() == "a number from 1 to 9"
    wrong = game.step(str(number % 9 + 1))
    assert wrong.executable and not wrong.rewards and game.observe() == "wrong" and not wrong.terminated
    right = game.step(f" {number} ")
    assert right.terminated and right.rewards == {"agent": 1.0} and game.outcome() == {"agent": 1.0}
    assert game.seat is None and game.closing() == {"agent": "right"}
    with pytest.raises(RuntimeError, match="over"):
        game.step("1")


def test_one_session_lasts_over_many_episodes_and_seeds_fix_them(url, game):
    numbers = set()
    for seed in (*range(12), *range(-12, 0)):
        for _ in range(2):
            game.reset(seed)
            right = [guess for guess in range(1, 7) if game.seat and game.step(str(guess)).rewards]
            numbers.add((seed, tuple(right)))
    assert len(numbers) == 24 and len({right for _, right in numbers}) > 4


def test_what_the_environment_refuses_costs_a_turn(game):
    game.reset(0)
    step = game.step("crash")
    assert not step.executable and not step.terminated and game.observe() == "The environment refused that: it crashed"
    assert game.step("0").executable, "the session goes on"


def test_no_text_breaks_it(game):
    texts = utterances(5)
    for seed in range(40):
        game.reset(seed)
        while game.seat is not None:
            game.step(next(texts))


def test_turns_cut_an_episode(url):
    game = openenv_game(url=url, turns=2)
    game.reset(0)
    assert not game.step("0").truncated
    assert game.step("0").truncated and game.seat is None
    game.close()


def test_a_saved_episode_goes_on(url, game):
    game.reset(5)
    for said in ("0", "crash", "x"):
        game.step(said)
    saved = json.dumps(game.save())
    other = openenv_game(url=url)
    other.restore(json.loads(saved))
    assert json.dumps(other.save()) == saved
    for each in (game, other):
        while each.seat is not None:
            each.step("0")
        assert each.outcome() == {"agent": 0.0} and each.closing() == {"agent": "wrong"}
    other.close()


def test_a_late_server_is_given_up_in_time_and_a_step_is_not_sent_twice(url):
    game = openenv_game(url=url, seconds=1)
    game.reset(0)
    started = time.monotonic()
    with pytest.raises(EndpointError, match="no answer to a step within 1 s"):
        game.step("sleep")
    assert time.monotonic() - started < 5
    assert httpx.get(f"{url}/sleeps").json() == 1
    game.reset(0)  # over a new session
    assert game.observe() == "a number from 1 to 9"
    game.close()
    time.sleep(SLEEP_SECONDS)  # the server notices that the old one is gone when it wakes up


@pytest.mark.parametrize(("said", "message"), [("hang up", "ConnectionClosed"), ("babble", "not the protocol")])
def test_a_session_that_breaks_is_an_error_of_the_endpoint(game, said, message):
    game.reset(0)
    with pytest.raises(EndpointError, match=message):
        game.step(said)
    game.reset(1)
    assert game.step("0").executable


def test_a_server_that_is_full_is_asked_again_until_there_is_room(url, monkeypatch):
    monkeypatch.setattr(openenv, "RETRY_SECONDS", 0.2)
    games = [openenv_game(url=url) for _ in range(ROOM)]
    for each in games:
        each.reset(0)
    late = openenv_game(url=url, retries=1)
    with pytest.raises(EndpointError, match="CAPACITY_REACHED: Server at capacity"):
        late.reset(0)
    patient = openenv_game(url=url, retries=5)
    leaving = threading.Timer(0.5, games[0].close)
    leaving.start()
    patient.reset(0)
    assert patient.seat == "agent"
    leaving.join()
    for each in (*games, patient):
        each.close()


def test_nobody_there_is_named_after_all_tries(monkeypatch):
    monkeypatch.setattr(openenv, "RETRY_SECONDS", 0.05)
    url = f"http://127.0.0.1:{free_port()}"
    game = openenv_game(url=url, action="message")
    with pytest.raises(EndpointError, match=f"environment at {url}: ConnectionRefusedError"):
        game.reset(0)
    with pytest.raises(EndpointError, match="its schema cannot be read"):
        openenv_game(url=url).reset(0)


def test_the_schema_is_asked_for_as_often_as_anything_else(monkeypatch):
    monkeypatch.setattr(openenv, "RETRY_SECONDS", 0.05)
    asked = []

    class Ill(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(503)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Ill) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(EndpointError, match="its schema cannot be read: .*503"):
            openenv_game(url=f"http://127.0.0.1:{server.server_port}", retries=2).reset(0)
        server.shutdown()
    assert asked == ["/schema"] * 3


def test_a_wrong_field_is_refused(url):
    game = openenv_game(url=url, observation="picture")
    with pytest.raises(ValueError, match="observation='picture': the observation has: text"):
        game.reset(0)
    game.close()
    game = openenv_game(url=url, action="words", observation="text")
    game.reset(0)
    assert not game.step("1").executable
    game.close()


def test_a_game_that_is_thrown_away_makes_room(url):
    for _ in range(2 * ROOM):
        dropped = openenv_game(url=url)
        dropped.reset(0)
        del dropped


def test_a_process_ends_although_a_session_is_open(url):
    code = f"from envs.registry import make_game\ngame = make_game('openenv', dict(url={url!r}))\ngame.reset(0)\n"
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0


def test_its_words_are_those_of_practice(game):
    known = {word for text in game.language() for word in text.split()}
    assert {"a", "number", "from", "1", "to", "9", "wrong"} <= known


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "localhost:8000"}, "url='localhost:8000' must be like"),
        ({"url": 5}, "url=5"),
        ({"seconds": 0}, "seconds=0"),
        ({"retries": -1}, "retries=-1"),
        ({"returns": [2, 1]}, "returns=\\[2, 1\\]"),
        ({"extra": "x"}, "extra='x'"),
        ({"action": 1}, "action=1"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        openenv_game(**options)


def test_sessions_are_not_shared(url):
    games = [openenv_game(url=url) for _ in range(ROOM)]
    for seed, each in enumerate(games):
        each.reset(seed)
    for _ in range(3):
        for each in games:
            each.step("0")
    lengths = [len(each.save()["said"]) for each in games]
    assert all(one == two for one, two in pairwise(lengths)) and lengths[0] == 3
    for each in games:
        each.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
