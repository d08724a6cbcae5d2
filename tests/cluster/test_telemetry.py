"""Spans of a run: with the SDK's own exporter, at a real receiver of OTLP/HTTP, and with a collector that is dead."""

from __future__ import annotations

import gzip
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cluster.errors import ConfigError
from cluster.recipe.reading import load_recipe
from cluster.recipe.telemetry import TelemetrySettings
from cluster.record.telemetry.spans import Spans
from tests.support.watched import game

WHY = "the packages are not installed: pip install '.[telemetry]'"
pytest.importorskip("opentelemetry.sdk", reason=WHY)
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason=WHY)

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: E402
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

from cluster.record.telemetry import sending  # noqa: E402


@contextmanager
def receiver() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector's door for traces: what it was sent, decoded."""
    got: list[ExportTraceServiceRequest] = []

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            known = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            if known:
                got.append(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()


def told(spans: Spans) -> None:
    """What a run of two updates says, the second of which breaks."""
    for update in (1, 2):
        spans.update(update)
        with spans.stage("collect"):
            time.sleep(0.01)
        with spans.stage("learn"), spans.stage("samples"):
            if update == 2:
                raise ValueError("rank 0 died")
        failed = game(update, 9)
        failed.failure = "timeout"
        spans.games([game(update, 4), failed])


def of_a_run(settings: TelemetrySettings, exporter: object = None) -> None:
    with pytest.raises(ValueError, match="rank 0"), Spans(settings, "demo-1", "twenty_questions", exporter) as spans:
        told(spans)


def test_stages_lie_in_their_update_and_requests_in_their_turn():
    exporter = InMemorySpanExporter()
    of_a_run(TelemetrySettings(endpoint="http://nowhere"), exporter)
    spans = exporter.get_finished_spans()
    known = {each.context.span_id: each for each in spans}
    tree = sorted((each.name, each.parent and known[each.parent.span_id].name) for each in spans)
    updates = [("update 1", None), ("update 2", None), ("collect", "update 1"), ("learn", "update 1")]
    updates += [("samples", "learn"), ("collect", "update 2"), ("learn", "update 2"), ("samples", "learn")]
    turns = [("turn guesser", "episode twenty_questions"), ("chat policy", "turn guesser")]
    wanted = [*updates, *(2 + 1) * turns, *2 * [("episode twenty_questions", None)]]
    assert tree == sorted(wanted, key=lambda pair: (pair[0], pair[1] or "")), "games 4 and 9 have two turns and one"
    for each in spans:
        assert each.start_time <= each.end_time and each.resource.attributes["parley.run"] == "demo-1"
        if each.parent is not None:
            around = known[each.parent.span_id]
            assert around.start_time <= each.start_time and each.end_time <= around.end_time
            assert each.context.trace_id == around.context.trace_id
    failed = [(each.name, each.status.description) for each in spans if not each.status.is_ok]
    broken = [(name, "ValueError: rank 0 died") for name in ("samples", "learn", "update 2")]
    assert sorted(failed) == sorted([("episode twenty_questions", "timeout"), *broken])
    episode = next(each for each in spans if each.attributes.get("parley.number") == 4)
    assert (episode.start_time, episode.end_time) == (1001 * 10**9, 1003 * 10**9), "it took two seconds"
    assert episode.attributes["parley.outcome.guesser"] == 0.0 and episode.attributes["parley.use"] == "trained"
    chats = [each for each in spans if each.name == "chat policy" and each.context.trace_id == episode.context.trace_id]
    counts = [(each.attributes["gen_ai.usage.input_tokens"], each.start_time) for each in chats]
    assert counts == [(3, 1001_100_000_000), (9, 1001_100_000_000)], "all that the seat had seen and said"


def test_a_collector_gets_them_over_http():
    with receiver() as (endpoint, got):
        of_a_run(TelemetrySettings(endpoint=endpoint))
    (about,) = {each.resource.SerializeToString(deterministic=True) for sent in got for each in sent.resource_spans}
    assert b"service.name" in about and b"demo-1" in about
    spans = [span for sent in got for each in sent.resource_spans for scope in each.scope_spans for span in scope.spans]
    assert len(spans) == 16 and {"update 1", "samples", "turn guesser", "chat policy"} <= {each.name for each in spans}
    values = {each.key: each.value for span in spans for each in span.attributes}
    assert values["gen_ai.usage.output_tokens"].int_value == 3


@pytest.mark.parametrize("silent", [True, False])
def test_a_dead_collector_costs_nothing_and_what_is_dropped_is_counted(silent, monkeypatch, caplog):
    """One that takes connections and never answers, and one that is not there."""
    monkeypatch.setattr(sending, "MOST_WAITING", 40)
    monkeypatch.setattr(sending, "AT_ONCE", 10)
    monkeypatch.setattr(sending, "REQUEST_SECONDS", 0.5)
    caplog.set_level(logging.WARNING, "parley")
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        if silent:
            dead.listen()
        endpoint = f"http://127.0.0.1:{dead.getsockname()[1]}"
        with Spans(TelemetrySettings(endpoint=endpoint, episodes="all"), "demo-1", "parrot") as spans:
            spent = time.thread_time()
            for update in range(30):
                spans.update(update)
                spans.games([game(update, number) for number in range(8)])
            assert time.thread_time() - spent < 5
            waiting, began = spans.sending.made - spans.sending.exporter.lost, time.monotonic()
            assert waiting <= 40
        assert time.monotonic() - began < sending.CLOSE_SECONDS + 2
    made = 30 + 30 * sum(1 + 2 * (1 + number % 3) for number in range(8))
    assert spans.metrics() == {"record/spans_sent": 0.0, "record/spans_dropped": float(made)}
    said = [each.getMessage() for each in caplog.records if "cannot be sent" in each.getMessage()]
    assert len(said) == 1 and endpoint in said[0] and len(said[0]) < 300


def test_without_an_endpoint_nothing_is_loaded_and_a_wrong_one_is_one_line(monkeypatch):
    with Spans(TelemetrySettings(), "demo-1", "parrot") as spans:
        spans.update(1)
        with spans.stage("learn"):
            spans.games([game(1, 1)])
    assert spans.sending is None and spans.metrics() == {}
    with pytest.raises(ConfigError, match="telemetry.endpoint.*does not begin with http"):
        load_recipe(None, ["telemetry.endpoint=localhost:4318"])
    monkeypatch.setitem(sys.modules, "cluster.record.telemetry.sending", None)
    with pytest.raises(ConfigError, match=r"needs the package .*\.\[telemetry\]"):
        Spans(TelemetrySettings(endpoint="http://x"), "demo-1", "parrot")
