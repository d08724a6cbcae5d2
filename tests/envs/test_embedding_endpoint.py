"""Embeddings from an OpenAI-compatible server: a real one over HTTP, that answers with the packaged MiniLM."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from envs.episode import Episode, Ticket, Turn
from envs.text.chat import EndpointError
from envs.text.embedding import Embedder, EmbeddingEndpointSettings, embed
from envs.text.embedding_endpoint import EndpointEncoder
from reward_service.intentions.settings import EmbeddingSettings, IntentionSettings
from reward_service.shapers.aria import AriaShaper

TEXTS = ["is it alive?", "does it live?", "can you eat it?", "\u00e9", ""]


class Server(ThreadingHTTPServer):
    """Answers as OpenAI's servers do, shuffled and not of unit length; `faults` come first, one a request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.faults, self.bodies, self.keys = [], [], []

    def settings(self, **options) -> EmbeddingEndpointSettings:
        url = f"http://127.0.0.1:{self.server_port}/v1"
        return EmbeddingEndpointSettings(**{"url": url, "model": "minilm", "timeout_seconds": 60.0} | options)

    def encoder(self, **options) -> EndpointEncoder:
        return EndpointEncoder("embedding.endpoint", self.settings(**options))


class Answer(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.server.keys.append(self.headers["Authorization"])
        fault = self.server.faults.pop(0) if self.server.faults else None
        if not all(body["input"]) or self.path != "/v1/embeddings":
            fault = 400
        if isinstance(fault, int):
            return self.say(fault, b"not\nnow")
        if fault == "slow":
            return self.drip()
        rows = 3 * embed([text.strip() for text in body["input"]])
        data = [{"index": index, "embedding": row.tolist()} for index, row in enumerate(rows)][::-1]
        self.say(200, json.dumps(fault(data) if fault else {"data": data}).encode())

    def say(self, status: int, content: bytes):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def drip(self):
        """An answer that never ends, a byte at a time."""
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        try:
            for _ in range(200):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            pass


@pytest.fixture
def server():
    embed(TEXTS)  # the model is loaded before anybody waits for an answer
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.05,))
        thread.start()
        yield found
        found.shutdown()
        thread.join(10)


def test_rows_are_in_the_order_of_the_texts_and_of_unit_length(server):
    encoder = server.encoder(batch_texts=2, body={"truncate_prompt_tokens": 256})
    rows = encoder.encode(TEXTS)
    assert rows.dtype == np.float32 and np.allclose(rows, embed(TEXTS), atol=1e-6)
    assert [body["input"] for body in server.bodies] == [TEXTS[:2], TEXTS[2:4], [" "]]
    assert all((body["model"], body["truncate_prompt_tokens"]) == ("minilm", 256) for body in server.bodies)
    assert encoder.metrics() == {"requests": 3, "answers": 3, "failures": 0, "retries": 0}


def test_what_may_pass_is_tried_again_and_what_will_not_is_not(server, monkeypatch):
    monkeypatch.setattr("envs.text.embedding_endpoint.RETRY_SECONDS", 0.01)
    encoder = server.encoder(retries=2)
    server.faults = [503, 429]
    assert np.allclose(encoder.encode(["a"]), embed(["a"]), atol=1e-6)
    server.faults = [503, 503, 503]
    with pytest.raises(EndpointError, match=r"^embedding.endpoint at http://.*/v1: HTTP 503: .*not now"):
        encoder.encode(["a"])
    server.faults = [401]
    with pytest.raises(EndpointError, match="HTTP 401"):
        encoder.encode(["a"])
    assert encoder.metrics() == {"requests": 3, "answers": 1, "failures": 2, "retries": 4}


def test_a_server_that_is_not_there_or_never_ends_is_given_up(server, monkeypatch):
    monkeypatch.setattr("envs.text.embedding_endpoint.RETRY_SECONDS", 0.01)
    with pytest.raises(EndpointError, match="ConnectError"):
        server.encoder(url="http://127.0.0.1:9/v1").encode(["a"])
    server.faults, started = ["slow"], time.monotonic()
    with pytest.raises(EndpointError, match="ReadTimeout: no whole answer in 0.3 s"):
        server.encoder(timeout_seconds=0.3, retries=0).encode(["a"])
    assert time.monotonic() - started < 5, "the server would go on for longer"


def changed(**fields):
    return lambda data: {"data": [each | fields for each in data]}


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (lambda data: {"data": data[1:]}, "1 rows for 2 texts"),
        (changed(index=0), "or not numbered from 0"),
        (lambda data: {"data": [each | {"embedding": each["embedding"][:9]} for each in data]}, "rows of 9 numbers"),
        (changed(embedding=[0.0] * 384), "not finite, or all zeros"),
        (changed(embedding=[float("nan")] * 384), "not finite, or all zeros"),
        (changed(embedding="AAAA"), "not embeddings"),
        (lambda data: {"error": "no"}, "not embeddings .KeyError: 'data'"),
    ],
)
def test_a_wrong_answer_is_named_and_never_used(server, fault, says):
    encoder = server.encoder()
    embedder = Embedder(lambda: encoder)
    embedder.embed(["one", "two"])
    server.faults = [fault]
    with pytest.raises(EndpointError, match=says):
        embedder.embed(["one", "three", "four"])
    assert embedder.metrics() | {"hit_rate": 0} == {
        **{"hit_rate": 0, "misses": 2, "cached": 2, "requests": 2, "answers": 1, "failures": 1, "retries": 0}
    }
    assert np.allclose(embedder.embed(["three"]), embed(["three"]), atol=1e-6)


def test_the_key_comes_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "secret")
    server.encoder(key_variable="SOME_KEY").encode(["a"])
    assert server.keys == ["Bearer secret"]
    monkeypatch.delenv("SOME_KEY")
    with pytest.raises(ValueError, match=r"^embedding.endpoint.key_variable=SOME_KEY: that environment variable"):
        server.encoder(key_variable="SOME_KEY")


def episode(number: int, *said: str) -> Episode:
    turns = [Turn("guesser", "policy", "ask", text) for text in said]
    return Episode(Ticket("run", "parrot", number, number, (("guesser", "policy"),)), turns, {"guesser": 1.0}, True)


def test_a_shaper_embeds_by_an_endpoint_each_text_once_and_counts(server):
    embedding = EmbeddingSettings(endpoint=server.settings(retries=0), cached=100)
    aria = AriaShaper(IntentionSettings(observations="none", embedding=embedding))
    aria.prepare(episode(0, "is it alive?", "can you eat it?"))
    aria.shape([episode(0, "is it alive?", "can you eat it?"), episode(1, "does it live?")])
    aria.shape([episode(2, "is it alive?")])
    asked = [text for body in server.bodies for text in body["input"]]
    assert sorted(asked) == ["can you eat it?", "does it live?", "is it alive?"]
    found = {name: value for name, value in aria.metrics().items() if "/embedding/" in name}
    assert found == {
        f"intentions/embedding/{name}": value
        for name, value in {
            **{"hit_rate": 2 / 5, "misses": 3.0, "cached": 3.0},
            **{"requests": 2.0, "answers": 2.0, "failures": 0.0, "retries": 0.0},
        }.items()
    }
    before = aria.state()
    server.faults = [500]
    with pytest.raises(EndpointError, match=r"^reward.shaper.intentions.embedding.endpoint at http"):
        aria.shape([episode(3, "is it new?")])
    assert aria.state() == before and aria.metrics()["intentions/embedding/failures"] == 1
    assert len(aria.shape([episode(3, "is it new?")])) == 1


def test_a_model_here_and_an_endpoint_exclude_each_other():
    endpoint = {"url": "http://host/v1", "model": "minilm"}
    with pytest.raises(ValueError, match=r"model=folder would be loaded here, but embedding.endpoint=http://host/v1"):
        IntentionSettings(model="folder", embedding={"endpoint": endpoint})
    with pytest.raises(ValueError, match="url"):
        IntentionSettings(embedding={"endpoint": endpoint | {"url": "host:80"}})
