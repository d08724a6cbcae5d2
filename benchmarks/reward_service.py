"""How long callers wait for their values: in one process, at a named actor, and over HTTP.

    python -m benchmarks.reward_service            20 s of traffic each
    python -m benchmarks.reward_service --quick    8 s each

Episodes of ten turns come at 200 a second, whether earlier ones are answered or not; the wait is
counted from the moment a request was due. The shaper is aria with a full window, and the journal is
on the disk with each answer. The same traffic runs without refits and with refits one after the
other. One client process and one service share the machine with everything else that runs on it.

A request has one episode or eight; over HTTP eight: client, proxy, ingress and shard together are busy
for some ten milliseconds with each request, so that 200 a second are more than two cores do, and the
queue would only grow.

*disk* is how long the disk took for what was written before an answer, of the last 4,096 micro-batches: on a machine
whose disk is shared it may be all that callers wait for. TMPDIR=/dev/shm keeps the journal in memory instead.

All utterances are embedded here once, and every service is told by this process, each text once and
before anything is measured: it then has them in its cache.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.table import Table

from benchmarks.private_ray import private_ray
from benchmarks.report import Say, run_alone
from envs.episode import Episode, Ticket, Turn
from envs.settings import GameSettings
from envs.text.embedding import embed
from reward_service.service.journal import Journal
from reward_service.service.plain import plain_of
from reward_service.service.stream import RewardStream
from reward_service.settings import HttpSettings, RewardSettings
from reward_service.threads import freeze_garbage_collector

RATE, TURNS, WINDOW = 200, 10, 1024  # episodes a second; turns of each; episodes in the window
TEXTS = 3000  # distinct utterances: few enough that all recur, so many that some leave the window and come back
WARM = 64  # episodes in a request before anything is measured
SECONDS, QUICK_SECONDS = 20, 8
ANSWER_SECONDS = 60.0  # longest wait for the last answers
SELDOM, OFTEN = 1e6, 0.02  # reward.shaper.intentions.growth: never again; again and again
THINGS = ("price", "deal", "offer", "share", "round", "split", "answer", "claim", "part", "gain")

Send = Callable[[list[Episode]], Future]  # of a list, an entry for each episode
Metrics = Callable[[], dict[str, float]]


def measure(quick: bool, say: Say) -> dict[str, Any]:
    seconds = QUICK_SECONDS if quick else SECONDS
    found = []
    say(f"embedding {TEXTS} utterances")
    with embeddings() as url:
        freeze_garbage_collector()
        for where, service, together in WHERE:
            for refits, growth in (("none", SELDOM), ("one after the other", OFTEN)):
                say(f"{where}, refits: {refits}")
                case = {"where": where, "episodes_a_request": together, "refits": refits}
                with (
                    tempfile.TemporaryDirectory(prefix="parley-rewards-") as folder,
                    service(settings_of(folder, growth, url)) as (send, metrics),
                ):
                    found.append(case | run(seconds, together, send, metrics))
    return {"episodes_per_second": RATE, "seconds_each": seconds, "waits": found}


def settings_of(folder: str, growth: float, url: str) -> RewardSettings:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        http = HttpSettings(port=held.getsockname()[1], state=folder)
    embedding = {"endpoint": {"url": url, "model": "as embedded before", "batch_texts": TEXTS}}
    intentions = {"growth": growth, "drift": 1.0, "aggregate": {"window": WINDOW}, "embedding": embedding}
    return RewardSettings(shaper={"kind": "aria", "intentions": intentions}, http=http)


@contextmanager
def embeddings() -> Iterator[str]:
    """The address of a server that has them all."""
    from reward_service.service.http.shard import WARM_UP

    texts = [*utterances(), *(turn.utterance for turn in WARM_UP.turns)]
    rows = dict(zip(texts, embed(texts).tolist(), strict=True))

    class Told(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            found = [{"index": place, "embedding": rows[text]} for place, text in enumerate(asked)]
            content = json.dumps({"data": found}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Told)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join(ANSWER_SECONDS)


def run(seconds: float, together: int, send: Send, metrics: Metrics) -> dict[str, Any]:
    episodes = traffic()
    for _ in range(WINDOW // WARM + 2):
        send(list(islice(episodes, WARM))).result(ANSWER_SECONDS)
    before, waits, failed, count = _settled(metrics), [], [], int(RATE * seconds) // together
    started = time.perf_counter()
    for number in range(count):
        due = started + number * together / RATE
        time.sleep(max(0.0, due - time.perf_counter()))

        def answered(future: Future, due: float = due) -> None:
            waited = time.perf_counter() - due
            error = future.exception() or (None if isinstance(future.result(), list) else future.result())
            if error is None:
                waits.append(waited)
            else:
                failed.append(error)

        send(list(islice(episodes, together))).add_done_callback(answered)
    deadline = time.perf_counter() + ANSWER_SECONDS
    while len(waits) + len(failed) < count and time.perf_counter() < deadline:
        time.sleep(0.01)
    if failed:
        raise RuntimeError(f"{len(failed)} of {count} requests failed, the first with {failed[0]!r}")
    if len(waits) < count:
        raise RuntimeError(f"{count - len(waits)} of {count} requests were not answered within {ANSWER_SECONDS:g} s")
    after = metrics()
    milliseconds = 1000 * np.array(waits)
    return {
        "p50_ms": round(float(np.percentile(milliseconds, 50)), 1),
        "p99_ms": round(float(np.percentile(milliseconds, 99)), 1),
        "largest_ms": round(float(milliseconds.max()), 1),
        "disk_p99_ms": round(1000 * after["stream/disk_p99"], 1),
        "disk_largest_ms": round(1000 * after["stream/disk_p100"], 1),
        "refits_published": int(after["stream/refits"] - before["stream/refits"]),
    }


def _settled(metrics: Metrics) -> dict[str, float]:
    """Once the first intention space is in use."""
    deadline = time.perf_counter() + ANSWER_SECONDS
    while (found := metrics())["stream/refitting"] or not found["stream/refits"]:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"no intention space within {ANSWER_SECONDS:g} s")
        time.sleep(0.05)
    return found


def utterances() -> list[str]:
    return [f"{THINGS[n % 10]} {THINGS[n // 10 % 10]} {n}" for n in range(TEXTS)]


def traffic() -> Iterator[Episode]:
    chance, texts = random.Random(0), utterances()
    first = iter(texts)  # each once, so that all are embedded before anything is measured
    for number in range(1_000_000):
        turns = [Turn("seat", "policy", "go on", next(first, None) or chance.choice(texts)) for _ in range(TURNS)]
        ticket = Ticket("benchmark", "negotiation", number, number, (("seat", "policy"), ("rival", "other")))
        yield Episode(ticket, turns, {"seat": chance.random()}, terminated=True)


@contextmanager
def in_process(settings: RewardSettings) -> Iterator[tuple]:
    shaper = settings.shaper.make(GameSettings())
    stream = RewardStream(shaper, settings.http.stream, Journal(Path(settings.http.state), {}))

    try:
        yield stream.submit, stream.metrics
    finally:
        stream.close()


@contextmanager
def named_actor(settings: RewardSettings) -> Iterator[tuple]:
    import ray

    from reward_service.service.http.shard import NAMESPACE, RewardShard, shard_name

    with private_ray():
        made = RewardShard.options(name=shard_name(0), namespace=NAMESPACE, num_cpus=0)
        shard = made.remote(settings, GameSettings(), 0)

        def call(method: str, *arguments: Any) -> Any:
            return ray.get(getattr(shard, method).remote(*arguments), timeout=settings.http.start_seconds)

        try:
            yield lambda episodes: shard.rewards.remote(episodes).future(), lambda: call("metrics")
        finally:
            call("close")
            ray.kill(shard)


@contextmanager
def over_http(settings: RewardSettings) -> Iterator[tuple]:
    import ray

    from reward_service.service.http.deployment import DeployedService

    with private_ray(), _loop() as loop:
        service = DeployedService(settings, GameSettings(), None)
        service.start()
        client = httpx.AsyncClient(base_url=service.address, timeout=ANSWER_SECONDS)

        async def post(episodes: list[Episode]) -> list[dict[str, Any]]:
            content = {"episodes": [plain_of(episode) for episode in episodes]}
            return (await client.post("/v1/rewards", json=content)).raise_for_status().json()["rewards"]

        def send(episodes: list[Episode]) -> Future:
            return asyncio.run_coroutine_threadsafe(post(episodes), loop)

        try:
            yield send, lambda: ray.get(service.shards[0].metrics.remote(), timeout=ANSWER_SECONDS)
        finally:
            asyncio.run_coroutine_threadsafe(client.aclose(), loop).result(ANSWER_SECONDS)
            service.close()


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    """In a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_SECONDS)


WHERE = (
    ("in process", in_process, 1),
    ("named actor", named_actor, 1),
    ("named actor", named_actor, 8),
    ("HTTP", over_http, 8),
)


def tables(found: dict[str, Any]) -> list[Table]:
    waits = ("p50 ms", "p99 ms", "largest ms", "disk p99 ms", "disk largest ms")
    table = Table("where", "episodes a request", "refits", *waits, "refits published")
    for row in found["waits"]:
        table.add_row(*(str(value) for value in row.values()))
    return [table]


if __name__ == "__main__":
    run_alone("reward_service", measure, tables)
