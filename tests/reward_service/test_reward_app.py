"""The service's endpoints in this process: what counts and what does not, what is read, who is kept waiting."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from types import SimpleNamespace

import httpx
import pytest

from envs import registry
from envs.settings import GameSettings
from reward_service.service.client import BadAnswer, RewardClient, Unavailable
from reward_service.service.errors import Refusal
from reward_service.service.http import gate
from reward_service.service.http.app import make_app
from reward_service.service.http.gate import Gate
from reward_service.service.stream import RewardStream
from reward_service.settings import DialogueSettings, HttpSettings, RewardSettings, StreamSettings
from tests.support.reward_streams import SECONDS, aggregates, aria

PROMPT = "<|im_start|>user\nCapital of {}?<|im_end|>\n<|im_start|>assistant\n"


class Shard:
    """What a shard's actor does, without Ray."""

    def __init__(self, stream: RewardStream):
        self.stream, self.counted = stream, Counter()
        self.rewards, self.count = SimpleNamespace(remote=self._rewards), SimpleNamespace(remote=self._count)

    async def _rewards(self, episodes, request_id):
        try:
            return await asyncio.wrap_future(self.stream.submit(episodes, request_id))
        except (ValueError, RuntimeError) as error:
            return Refusal(error.reason, str(error))

    def _count(self, kind: str) -> None:
        self.counted[kind] += 1


@pytest.fixture
def shard():
    stream = RewardStream(aria(observations="none"), StreamSettings(longest_text=300))
    yield Shard(stream)
    stream.close()
    registry.GAMES.pop("capitals", None)


def asked(shard, path: str, content, **options) -> httpx.Response:
    settings = HttpSettings(
        stream=StreamSettings(longest_text=300), games={"capitals": DialogueSettings(judge="contains")}
    )
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def ask() -> httpx.Response:
        there = httpx.ASGITransport(make_app([shard], settings, None))
        async with httpx.AsyncClient(transport=there, base_url="http://here", timeout=SECONDS) as client:
            return await client.post(path, content=body, headers={"Content-Type": "application/json"} | options)

    return asyncio.run(ask())


def openrlhf(*samples: tuple[str, str, object]) -> dict:
    asked = [PROMPT.format(country) for country, _, _ in samples]
    queries = [prompt + answer for prompt, (_, answer, _) in zip(asked, samples, strict=True)]
    return {"query": queries, "prompts": asked, "labels": [label for _, _, label in samples]}


def verl(said: str, **extra) -> dict:
    extra = {"question": "Capital of France?"} | extra
    return {"data_source": "capitals", "solution_str": said, "ground_truth": "Paris", "extra_info": extra}


def test_an_evaluation_is_told_outcomes_and_changes_nothing(shard):
    """OpenRLHF's is told apart by its labels, verl's by the split of its data set."""
    path = "/v1/openrlhf?game=capitals"
    few = openrlhf(("France", "Paris", "Paris"), ("Italy", "Rome", "Rome"), ("Italy", "no idea", "Rome"))
    assert asked(shard, path, few).json()["rewards"] == [1.0, 1.0, 0.0]
    assert asked(shard, "/v1/verl", verl("Paris", split="train")).json()["kind"] == "advantage"
    before, counted = aggregates(shard.stream.shaper), shard.stream.metrics()["stream/episodes"]
    assert counted == 4
    for split in ("test", "Validation"):
        marked = {"answer": "Paris", "split": split}
        evaluated = openrlhf(("France", "It is Paris.", marked), ("France", "Rome", json.dumps(marked)))
        answer = asked(shard, path, evaluated).json()
        assert answer["rewards"] == answer["scores"] == [1.0, 0.0]
        for said, outcome in (("Paris!", 1.0), ("Rome", 0.0)):
            answer = asked(shard, "/v1/verl", verl(said, split=split)).json()
            assert answer["score"] == answer["acc"] == answer["outcome"] == outcome
            assert (answer["values"], answer["version"], answer["kind"]) == ([outcome], 0, "reward")
    assert aggregates(shard.stream.shaper) == before
    assert shard.stream.metrics()["stream/episodes"] == counted
    both = openrlhf(("France", "Paris", "Paris"), ("France", "Paris", {"answer": "Rome", "split": "dev"}))
    answer = asked(shard, path, both).json()
    assert answer["rewards"][1] == 0.0 and answer["scores"] == [1.0, 0.0]
    assert shard.stream.metrics()["stream/episodes"] == counted + 1
    wrong = asked(shard, "/v1/verl", verl("Paris", split="tset"))
    assert wrong.status_code == 422 and "extra_info.split: should be one of" in wrong.text


def test_a_long_sample_is_judged_whole_and_read_up_to_the_limit(shard):
    thought = f"<think>{'hm ' * 400}</think>"
    for said in (f"{'well, ' * 400} Paris", f"{thought} Paris", f"{thought}{'so, ' * 400} Paris"):
        assert asked(shard, "/v1/verl", verl(said)).json()["outcome"] == 1.0
    assert asked(shard, "/v1/openrlhf?game=capitals", openrlhf(("x" * 9999, "Paris", "Paris"))).status_code == 200
    read = [utterance.gist.text for utterance in shard.stream.shaper.corpus.utterances.values()]
    assert "Paris" in read and max(map(len, read)) <= 300 and not any("hm hm" in text for text in read)


HALF = "half an emoji \ud83d"
TURN = {"seat": "assistant", "utterance": "Paris"}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"turns": [TURN, TURN | {"utterance": HALF}]}, "the utterance of turn 1"),
        ({"turns": [TURN | {"observation": HALF}]}, "the observation of turn 0"),
        ({"turns": [TURN | {"caption": HALF}]}, "the caption of turn 0"),
        ({"turns": [TURN | {"actions": ["x", HALF]}]}, "an action of turn 0"),
        ({"turns": [TURN | {"seat": HALF}]}, "a seat"),
        ({"players": {"assistant": HALF}}, "a seat"),
        ({"facts": {"x": HALF}}, "closing or facts"),
        ({"closing": {HALF: "x"}}, "closing or facts"),
    ],
)
def test_half_a_character_is_refused_wherever_it_stands(shard, changes, where):
    whole = {"run": "r", "game": "capitals", "number": 1, "turns": [TURN], "outcome": {"assistant": 1.0}}
    answer = asked(shard, "/v1/rewards", {"episodes": [whole | changes]})
    error = answer.json()["error"]
    assert (answer.status_code, error["kind"]) == (422, "half_character")
    assert f"refused: {where} holds half of a character (a lone surrogate): send whole ones" in error["message"]
    assert asked(shard, "/v1/rewards", {"episodes": [whole]}).status_code == 200, "nothing was counted"


def test_errors_that_quote_half_a_character_can_be_sent(shard):
    answer = asked(shard, "/v1/openrlhf?game=capitals", openrlhf(("France", "Paris", {HALF: 1})))
    said = "labels[0]: its label may have answer, outcome, split, not half an emoji \\ud83d"
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, said)
    whole = {"number": 1, "turns": [TURN], "outcome": {"assistant": 1.0}}
    for name in ("run", "game"):
        named = {"run": "r", "game": "capitals"} | {name: HALF}
        assert asked(shard, "/v1/rewards", {"episodes": [whole | named]}).json()["error"]["kind"] == "bad_request"
    assert asked(shard, "/v1/verl", verl(HALF)).json()["error"]["kind"] == "half_character"


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"{", b"[" * 100_000, b'{"data_source": "capitals", "solution_str": 1e']
)
def test_a_body_that_cannot_be_read_is_not_json(shard, body):
    answer = asked(shard, "/v1/verl", body)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "not_json")
    assert shard.counted == {"not_json": 1}


def client_of(*answers: httpx.Response, patience: float = 0.8) -> RewardClient:
    """Answered by these in turn."""
    client, waiting = RewardClient("http://there", patience=patience), list(answers)
    there = httpx.MockTransport(lambda request: waiting.pop(0))
    client.http = httpx.Client(base_url="http://there", transport=there)
    return client


def test_a_client_tries_again_what_a_proxy_answers_while_the_service_is_away():
    page = "<html><h1>502 Bad Gateway</h1></html>"
    for status in (502, 503, 504):
        away = httpx.Response(status, html=page)
        assert client_of(away, httpx.Response(200, json={"rewards": []})).rewards([]) == []
    with pytest.raises(Unavailable, match="http://there/v1/rewards answered 502 without a JSON object") as raised:
        client_of(*[httpx.Response(502, html=page)] * 2).rewards([])
    assert raised.value.kind == "unreached"
    for status in (200, 404, 500):
        with pytest.raises(BadAnswer, match=f"answered {status} without a JSON object"):
            client_of(httpx.Response(status, html=page)).rewards([])


@pytest.mark.parametrize(("kind", "waits"), [("unready", [1, 1, 2, 4]), ("busy", [1, 1, 1, 1])])
def test_who_is_busy_is_asked_again_when_it_says_and_who_restarts_ever_later(monkeypatch, kind, waits):
    slept = []
    monkeypatch.setattr("reward_service.service.client.time.sleep", slept.append)
    away = httpx.Response(503, json={"error": {"kind": kind, "message": ""}}, headers={"Retry-After": "1"})
    answers = [away] * 4 + [httpx.Response(200, json={"rewards": []})]
    assert client_of(*answers, patience=60.0).rewards([]) == [] and slept == waits


def test_callers_that_send_slowly_do_not_keep_others_out(monkeypatch):
    """With three on their way that never arrive, three more come in at once, and the first three are let go."""
    monkeypatch.setattr(gate, "ARRIVING", 3)
    refused = []

    async def app(scope, receive, send) -> None:
        send((await receive())["body"])

    async def answer(error):
        refused.append(error.kind)
        return app_nothing

    async def app_nothing(scope, receive, send) -> None: ...

    guard = Gate(app, key=None, request_bytes=99, answer=answer)
    scope, arrived = {"type": "http", "path": "/v1/rewards", "headers": []}, []

    async def never():
        await asyncio.Event().wait()

    async def at_once():
        return {"type": "http.request", "body": b"here"}

    async def crowd() -> None:
        slow = [asyncio.create_task(guard(scope, never, arrived.append)) for _ in range(3)]
        await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.wait_for(guard(scope, at_once, arrived.append), SECONDS)
        await asyncio.sleep(0.01)
        assert [task.done() for task in slow] == [True, False, False], "there was room again after the first"
        more = [asyncio.create_task(guard(scope, never, arrived.append)) for _ in range(3)]
        await asyncio.wait_for(asyncio.gather(*slow), SECONDS)
        for task in more:
            task.cancel()

    asyncio.run(crowd())
    assert arrived == [b"here"] * 3 and refused == ["slow_request"] * 3


def test_a_shard_that_cannot_start_is_told_in_a_line_before_serve_has_begun(ray_cluster, tmp_path):
    """Its folder holds the state of another shaper."""
    from reward_service.service.http.deployment import DeployedService, ServiceError

    (tmp_path / "shard-0").mkdir()
    (tmp_path / "shard-0" / "service.json").write_text('{"shaper": "oni"}')
    settings = RewardSettings.model_validate({"http": {"state": str(tmp_path)}})
    says = r"^a shard cannot be started: .* keeps the state of a service with shaper=oni, not outcome"
    with pytest.raises(ServiceError, match=says):
        DeployedService(settings, GameSettings(), None).start()
