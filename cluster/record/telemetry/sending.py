"""From spans to a collector over OTLP/HTTP: whoever makes them never waits, and a dead collector stops nothing.

made = sent + lost (the collector did not take them) + waiting, and waiting <= MOST_WAITING
dropped = lost + those that there was no room for
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

MOST_WAITING = 20_000  # spans
AT_ONCE = 512  # in one request
REQUEST_SECONDS = 5.0  # for one request, its repetitions included
CLOSE_SECONDS = 5.0  # for what still waits at the end; one request may be under way then
OF_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"  # its logger

log = logging.getLogger("parley")


class Sending:
    """`exporter`: other than the one for `endpoint`."""

    def __init__(self, endpoint: str, about: dict[str, str], exporter: SpanExporter | None = None):
        exporter = exporter or OTLPSpanExporter(_with_path(endpoint), timeout=REQUEST_SECONDS)
        self.exporter = Counted(exporter, endpoint)
        self.made = self.refused = 0
        self.lock = threading.Lock()  # the loop makes spans, and the recorder
        self.provider = TracerProvider(
            ALWAYS_ON, Resource.create(about), shutdown_on_exit=False, id_generator=OwnRandomIds()
        )
        self.provider.add_span_processor(
            BatchSpanProcessor(self.exporter, max_queue_size=MOST_WAITING, max_export_batch_size=AT_ONCE)
        )
        self.tracer = self.provider.get_tracer("parley")

    def start(self, name: str, at: float, within: Span | None, about: Mapping[str, Any]) -> Span:
        """A span, in a trace of its own or within another; `at`: in seconds of Unix time."""
        around = Context() if within is None else set_span_in_context(within, Context())
        told = {key: value for key, value in about.items() if value is not None}
        return self.tracer.start_span(name, around, attributes=told, start_time=_nano(at))

    def end(self, span: Span, at: float, failure: str | None = None) -> None:
        if failure is not None:
            span.set_status(Status(StatusCode.ERROR, failure))
        span.end(_nano(at))

    def takes(self, spans: int) -> bool:
        """Whether there is room for so many; whoever is told yes makes and ends them."""
        with self.lock:
            room = self.made - self.exporter.sent - self.exporter.lost + spans <= MOST_WAITING
            self.made, self.refused = self.made + spans * room, self.refused + spans * (not room)
        return room

    def metrics(self) -> dict[str, float]:
        dropped = self.exporter.lost + self.refused
        return {"record/spans_sent": float(self.exporter.sent), "record/spans_dropped": float(dropped)}

    def close(self) -> None:
        self.exporter.until = time.monotonic() + CLOSE_SECONDS
        if self.exporter.failing:
            self.exporter.shutdown()  # a repetition that it waits for is given up
        self.provider.shutdown()


class Counted(SpanExporter):
    """Another one's results, counted; what that one says about failures is said once."""

    def __init__(self, inner: SpanExporter, endpoint: str):
        self.inner, self.endpoint = inner, endpoint
        self.sent = self.lost = 0
        self.until = float("inf")  # nothing is sent after this moment
        self.failing = self.ended = False
        self.reason = ""
        logging.getLogger(OF_EXPORTER).addFilter(self._heard)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        given_up = self.ended or time.monotonic() > self.until
        result = SpanExportResult.FAILURE if given_up else self.inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.failing, self.sent, self.reason = False, self.sent + len(spans), ""
            return result
        if not self.lost and not given_up:
            log.warning("spans cannot be sent to %s, the run goes on: %s", self.endpoint, self.reason[:200])
        self.failing, self.lost = True, self.lost + len(spans)
        return result

    def shutdown(self) -> None:
        if not self.ended:
            self.ended = True
            self.inner.shutdown()
            logging.getLogger(OF_EXPORTER).removeFilter(self._heard)

    def _heard(self, record: logging.LogRecord) -> bool:
        self.reason = self.reason or record.getMessage()  # the first; then it speaks of repetitions
        return False


class OwnRandomIds(IdGenerator):
    """The library's own takes them from Python's shared random numbers, which games may use."""

    def __init__(self):
        self.random = random.SystemRandom()

    def generate_span_id(self) -> int:
        return self.random.randrange(1, 2**64)

    def generate_trace_id(self) -> int:
        return self.random.randrange(1, 2**128)


def _nano(seconds: float) -> int:
    return round(1e9 * seconds)


def _with_path(endpoint: str) -> str:
    """As the environment variable OTEL_EXPORTER_OTLP_ENDPOINT is read, unless a path of traces is named."""
    return endpoint if endpoint.rstrip("/").endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"
