"""The reward service as its callers see it: on Ray Serve, over HTTP, with real embeddings; and killed."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cluster.commands.cli import main
from cluster.recipe.reading import load_recipe
from envs.settings import GameSettings
from reward_service.service.client import (
    Refused,
    RewardClient,
    SentTwice,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnknownGame,
)
from reward_service.service.http.gate import fits
from reward_service.service.http.shard import NAMESPACE, able, shard_name, shard_of
from reward_service.service.plain import PlainEpisode
from reward_service.service.plain import episode_of as read
from reward_service.settings import HttpSettings, RewardSettings
from reward_service.shaper import SHAPERS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
KEY = "a key of more than sixteen".replace(" ", "-")
SECONDS = 60.0  # longest wait for anything here
PARTS = ("gists", "window", "known", "since_refit")  # of a shaper's state: all but what may differ in rounding


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@pytest.fixture(scope="module")
def service(ray_cluster, tmp_path_factory) -> Iterator:
    """Two shards behind Ray Serve."""
    from ray import serve

    from reward_service.service.http.deployment import DeployedService

    games = {}
    for recipe in EXAMPLES.glob("*_rewards/service.yaml"):
        games |= load_recipe(recipe).reward.http.games
    state = str(tmp_path_factory.mktemp("rewards"))
    http = HttpSettings(port=free_port(), shards=2, state=state, games=games, request_bytes=200_000)
    settings = RewardSettings(shaper={"kind": "aria", "intentions": {"refit": "inline", "first_fit": 60}}, http=http)
    made = DeployedService(settings, GameSettings(), KEY)
    try:
        made.start()
        yield made
    finally:
        made.close()
        serve.shutdown()


@pytest.fixture
def client(service) -> Iterator[RewardClient]:
    with RewardClient(service.address, KEY, seconds=SECONDS) as made:
        yield made


WORDS = ("apple", "bread", "cloud", "drum", "eagle", "fern")


def sample(number: int, run: str = "run", **changes) -> dict:
    turns = [{"seat": "parrot0", "observation": "say", "utterance": WORDS[(number + t) % 6]} for t in range(3)]
    outcome = {"parrot0": (number * 37 % 101) / 100}
    return {"run": run, "game": "parrot", "number": number, "turns": turns, "outcome": outcome} | changes


def shard_for(ray, game: str = "parrot"):
    return ray.get_actor(shard_name(shard_of(game, 2)), namespace=NAMESPACE)


def state_of(ray, game: str = "parrot") -> dict:
    return ray.get(shard_for(ray, game).state.remote(), timeout=SECONDS)


def aggregates(state: dict) -> str:
    return json.dumps([state[name] for name in PARTS])


# --- the service ----------------------------------------------------------------------------------


def test_episodes_get_the_values_of_the_shaper(ray_cluster, service, client):
    alone = service.settings.shaper.make(GameSettings())
    alone.restore(state_of(ray_cluster, "case_study"))
    for first in range(0, 40, 4):
        few = [sample(number, "values", game="case_study") for number in range(first, first + 4)]
        expected = alone.shape([read(PlainEpisode.model_validate(each)) for each in few])
        for one, other in zip(client.rewards(few), expected, strict=True):
            values = one.seats["parrot0"]
            assert (one.run, one.number, values.version, values.kind) == (
                "values", other.number, other.version, "advantage",
            )  # fmt: skip
            assert values.values.dtype == np.float32 and np.array_equal(values.values, other.rewards)
    assert values.version == 1, "a refit came in between"


def test_only_valued_seats_are_answered(client):
    both = sample(0, "seats", game="bargaining", outcome={"alice": 0.7, "bob": 0.3})
    both["turns"] = [{"seat": seat, "utterance": f"my offer {n}"} for n, seat in enumerate(("alice", "bob", "alice"))]
    (found,) = client.rewards([both])
    assert {seat: len(each.values) for seat, each in found.seats.items()} == {"alice": 2, "bob": 1}
    (found,) = client.rewards([both | {"number": 1, "players": {"alice": "policy", "bob": "somebody"}}])
    assert set(found.seats) == {"alice"}
    (found,) = client.rewards([both | {"number": 2, "turns": both["turns"][:1]}])
    assert set(found.seats) == {"alice"}, "the other one never spoke"


BAD = [
    ([], Refused, "bad_request", "episodes: is empty"),
    (
        [sample(1) | {"number": "1"}],
        Refused,
        "bad_request",
        r"episodes\[0\].number: should be a valid integer, not '1'",
    ),
    ([sample(1), sample(2, colour=1)], Refused, "bad_request", r"episodes\[1\].colour: unknown key"),
    ([sample(1), sample(2, turns=[{"seat": "a"}])], Refused, "bad_request", r"\[1\].turns\[0\].utterance: has to be"),
    ([sample(1, turns=[{"seat": "parrot0", "utterance": 5}])], Refused, "bad_request", r"utterance: .*string, not 5"),
    ([sample(1), sample(2, game="case_study")], Refused, "bad_request", r"episodes\[1\].game is 'case_study', the fi"),
    ([sample(1, turns=[])], Refused, "no_turns", "episode 1 .*has no turns"),
    ([sample(1, outcome={})], Refused, "no_seat", "episode 1 .*no seat is to be valued"),
    ([sample(1, outcome={"parrot0": 1.5})], Refused, "bad_outcome", "seat 'parrot0' is 1.5, not a number from 0"),
    ([sample(1, outcome={"parrot0": math.nan})], Refused, "bad_outcome", "is nan, not a number"),
    ([sample(1, outcome={"parrot0": math.inf})], Refused, "bad_outcome", "is inf, not a number"),
    ([sample(1, players={"other": "policy"})], Refused, "bad_outcome", "seat 'other' is None"),
    ([sample(1, players={"other": "policy"}, outcome={"other": 1.0})], Refused, "unknown_seat", "'parrot0' of turn 0"),
    ([sample(1, players={"a": "policy", "parrot0": "b"}, outcome={"a": 1})], Refused, "no_seat", "say nothing: a"),
    ([sample(1, outcome={"Parrot0": 1.0})], Refused, "unknown_seat", "outcome names 'Parrot0'.*its seats are parrot0"),
    (
        [sample(1, players={"parrot0": "policy"}, outcome={"parrot0": 1.0, "b": 0})],
        Refused,
        "unknown_seat",
        "names 'b'",
    ),
    ([sample(1, turns=[{"seat": "parrot0", "utterance": " "}])], Refused, "empty_utterance", "turn 0 is empty"),
    ([sample(1, turns=[{"seat": "parrot0", "utterance": "x" * 20_001}])], Refused, "huge_text", "20001 characters"),
    ([sample(1, game="checkers")], UnknownGame, "unknown_game", "unknown game 'checkers'; known: .*capitals"),
    ([sample(1, turns=[{"seat": "parrot0", "utterance": "x" * 9999}] * 30)], TooLarge, "too_large", "200000 bytes"),
]


def test_a_bad_request_is_one_line_and_changes_nothing(ray_cluster, service, client):
    client.rewards([sample(0, "bad")])
    before, errors = aggregates(state_of(ray_cluster)), counted(service)
    for episodes, kind, word, message in BAD:
        episodes = [each | {"run": "bad"} for each in episodes]
        with httpx.Client(headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}) as raw:
            body = json.dumps({"episodes": episodes})  # NaN and all, as Python's json writes them
            response = raw.post(f"{service.address}/v1/rewards", content=body, timeout=SECONDS)
        if "NaN" not in body and "Infinity" not in body:  # which httpx would not send
            with pytest.raises(kind, match=message) as raised:
                client.rewards(episodes)
            assert raised.value.kind == word
        found = response.json()["error"]
        assert found["kind"] == word and "\n" not in found["message"] and 400 <= response.status_code < 500
    with pytest.raises(SentTwice, match="episode 0 .* was sent before"):
        client.rewards([sample(0, "bad")])
    assert aggregates(state_of(ray_cluster)) == before
    client.rewards([sample(1, "bad")])
    later = counted(service)
    wrong = {word for _, _, word, _ in BAD} | {"sent_twice"}
    assert not {word for word in wrong if later.get(word, 0) <= errors.get(word, 0)}, "each kind is counted"


def counted(service) -> dict[str, float]:
    text = httpx.get(f"{service.address}/metrics", headers={"Authorization": f"Bearer {KEY}"}, timeout=SECONDS).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    gauges = {f"parley_rewards_{name}" for name in ("latency_seconds", "disk_seconds", "ready")}
    assert {"parley_rewards_requests", *gauges} <= set(families)
    quantiles = [one.labels["quantile"] for one in families["parley_rewards_disk_seconds"].samples]
    assert quantiles == ["0.5", "0.9", "0.99", "1"] * 2
    assert {one.labels["shard"] for one in families["parley_rewards_ready"].samples} == {"0", "1"}
    errors = families.get("parley_rewards_http_errors")
    return {one.labels["kind"]: one.value for one in errors.samples} if errors else {}


def test_nobody_comes_in_without_the_key(service):
    def status(path: str, **headers: str) -> int:
        return httpx.get(service.address + path, headers=headers, timeout=SECONDS).status_code

    assert [status(path) for path in ("/health", "/docs", "/openapi.json")] == [200] * 3
    assert status("/metrics") == status("/metrics", Authorization="Bearer wrong") == 401
    assert status("/metrics", Authorization=f"Basic {KEY}") == status("/metrics", Authorization="Basic wrong") == 401
    assert not fits("Basic \u00e9", KEY), "and nothing is raised"
    assert status("/metrics", Authorization=f"Bearer {KEY}") == 200
    password = service.address.replace("http://", f"http://anybody:{KEY}@") + "/metrics"
    assert httpx.get(password, timeout=SECONDS).status_code == 200
    with pytest.raises(Unauthorized, match="401 the API key is missing or wrong"):
        RewardClient(service.address, "wrong", seconds=SECONDS).rewards([sample(1)])
    answer = httpx.post(
        f"{service.address}/v1/rewards", content=b"{", timeout=SECONDS,
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )  # fmt: skip
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "not_json")
    assert status("/v2/rewards", Authorization=f"Bearer {KEY}") == 404


def test_a_client_tries_again_what_may_pass_and_nothing_else(client):
    client.http.base_url = httpx.URL(f"http://127.0.0.1:{free_port()}")
    client.patience, started = 1.6, time.monotonic()
    with pytest.raises(Unavailable, match="ConnectError"):
        client.rewards([sample(1)])
    assert 1.5 <= time.monotonic() - started < 10, "after .5 and 1 second; 2 more would be too long"


def test_kill_9_in_the_middle_of_the_traffic(ray_cluster, service):
    """Another process goes on from its folder: each answer, and all that is aggregated, is as if it had lived."""
    shard = shard_for(ray_cluster)
    client = RewardClient(service.address, KEY, seconds=SECONDS)
    alone, answers, killed = service.settings.shaper.make(GameSettings()), [], threading.Event()
    alone.restore(state_of(ray_cluster))
    process = ray_cluster.get(shard.health.remote(), timeout=SECONDS)["process"]

    def die() -> None:
        os.kill(process, signal.SIGKILL)
        killed.set()

    chance = random.Random(0)
    for number in range(60):
        few = [sample(3 * number + place, "killed") for place in range(chance.randrange(1, 4))]
        if number == 30:
            threading.Thread(target=die).start()
        (*_, last) = client.rewards(few)
        expected = alone.shape([read(PlainEpisode.model_validate(each)) for each in few])
        answers.append((few, last.seats["parrot0"].values))
        assert np.array_equal(answers[-1][1], expected[-1].rewards), f"request {number}"
    assert killed.wait(SECONDS)
    assert ray_cluster.get(shard.health.remote(), timeout=SECONDS)["process"] != process
    assert aggregates(state_of(ray_cluster)) == aggregates(alone.state())
    with pytest.raises(SentTwice):
        client.rewards([sample(0, "killed")])
    client.close()


def test_a_lost_answer_is_given_again(service, client):
    few = [sample(n, "lost") for n in range(3)]
    with httpx.Client(timeout=0.001) as hasty, pytest.raises(httpx.TransportError):
        hasty.post(
            f"{service.address}/v1/rewards", json={"episodes": few},
            headers={"Authorization": f"Bearer {KEY}", "Idempotency-Key": "lost"},
        )  # fmt: skip
    with ThreadPoolExecutor(4) as callers:
        found = list(callers.map(lambda _: client.rewards(few, "lost"), range(8)))
    values = [[each.seats["parrot0"].values.tolist() for each in one] for one in found]
    assert values.count(values[0]) == 8
    with pytest.raises(SentTwice, match="'lost' was sent before with other episodes"):
        client.rewards(few[:2], "lost")


# --- samples of other frameworks ------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["openrlhf_rewards/reward_func.py", "openrlhf_rewards/agent_func.py", "verl_rewards/compute_score.py"]
)
def test_the_examples_run(service, path):
    environment = {**os.environ, "PARLEY_URL": service.address, "PARLEY_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    environment = {**environment, "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(
        [sys.executable, EXAMPLES / path], env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert ended.returncode == 0, ended.stderr
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    if "agent" in path:
        assert [(len(each["values"]), each["over"]) for each in answers] == [(3, True), (5, True), (1, True)]
        assert answers[0]["heard"] == ["higher", "lower", "right"] and answers[2]["values"] == [1.0]
    elif "openrlhf" in path:
        assert answers[0]["scores"] == [1.0, 0.5, 0.0] and len(answers[0]["rewards"]) == 3
    else:
        assert [each["outcome"] for each in answers] == [1.0, 1.0, 0.0]
        assert all(set(each) == {"score", "acc", "outcome", "version"} for each in answers)


def test_a_shaper_that_can_never_answer_is_refused_when_the_service_starts():
    """Not with every request."""
    rule = SHAPERS.make("oni", model="retrieval", annotator="rule")
    with pytest.raises(ValueError, match="annotator=rule: game 'bargaining' has no method `helpful`; give"):
        able(rule, GameSettings(name="bargaining"))
    for kind in ("outcome", "game"):
        able(SHAPERS.make(kind), GameSettings(name="bargaining"))
    assert able(rule, GameSettings(name="twenty_questions")).queue.counts["seen"] == 0, "it was another that was asked"


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "key", "said"),
    [
        ([], None, "the environment variable PARLEY_API_KEY holds no API key: set PARLEY_API_KEY or"),
        ([], "short", "should be 16 or more plain characters"),
        (["reward.http.key_file=/nowhere"], KEY, "reward.http.key_file: cannot read '/nowhere'"),
        (["reward.http.host=0.0.0.0", "--no-key"], KEY, "--no-key is for this machine alone, but reward.http.host=0.0"),
        (["reward.http.shards=0"], KEY, "command line: reward.http.shards: should be greater than or equal to 1"),
        (["reward.http.games={x: {judge: guess}}"], KEY, "reward.http.games.x.judge: 'guess' is not one of"),
        (["reward.http.games={parrot: {}}"], KEY, "reward.http.games.parrot: Parley has a game of that name"),
        (
            ["reward.shaper=igpo", "rollout.score_answers=true"],
            KEY,
            "reward.shaper=igpo asks the policy that trains here",
        ),
    ],
)
def test_the_command_refuses_what_cannot_work_before_anything_starts(monkeypatch, capsys, words, key, said):
    monkeypatch.delenv("PARLEY_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("PARLEY_API_KEY", key)
    assert main(["rewards", "serve", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
