"""A served model annotates: `parley serve-model` with the tiny model, asked by the endpoint annotator."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cluster.commands.cli import main
from cluster.commands.command import KEY_VARIABLE
from envs.settings import GameSettings
from reward_service.desk import RewardDesk, name_of
from reward_service.shapers.oni import Oni
from reward_service.shapers.oni.annotator import EndpointAnnotator, Failed, goal_of
from reward_service.shapers.oni.settings import AnnotatorEndpoint
from reward_service.shapers.oni.shaper import OniShaper
from tests.support.oni_games import telling
from tests.support.runs import ROOT

KEY, START_SECONDS, STOP_SECONDS = "PARLEY_API_KEY", 420, 60
TWENTY = GameSettings(name="twenty_questions")
SMALL = (
    *("rollout.engine.max_context=512", "rollout.engine.max_sequences=8", "rollout.engine.cpu_cache_gib=0.25"),
    *("rollout.workers=64", "rollout.engine.max_batched_tokens=512", f"rollout.engine.start_seconds={START_SECONDS}"),
)


def wait_for(what, seconds: float, process: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, log.read_text()
        assert process.poll() is None, log.read_text()
        time.sleep(0.2)


def children(process: subprocess.Popen) -> list[psutil.Process]:
    """Those that have a group of their own: of these is the server."""
    return [each for each in psutil.Process(process.pid).children() if os.getpgid(each.pid) == each.pid]


def server_of(process: subprocess.Popen) -> psutil.Process:
    (server,) = children(process)
    return server


@pytest.fixture
def command(tiny_model, tmp_path, monkeypatch) -> Iterator[tuple[subprocess.Popen, Path]]:
    """`parley serve-model`, just started, and the file with what it prints."""
    monkeypatch.setenv(KEY, "open sesame")
    log = tmp_path / "printed.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "cluster", "serve-model", str(tiny_model), "--port", "0", *SMALL],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        yield process, log
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_SECONDS)


def choosing(tiny_model: Path) -> dict[str, int]:
    """The tiny model speaks in whole words: those that begin an answer which none of them can end are biased away."""
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(tiny_model).get_vocab()
    beginnings = {answer[:size] for answer in ("yes", "no") for size in range(1, len(answer))}
    return {str(number): -100 for word, number in words.items() if word in beginnings}


@pytest.mark.long
@pytest.mark.timeout(560)
def test_a_served_model_annotates_until_it_is_killed_and_nobody_stops_for_that(command, tiny_model):
    process, log = command
    wait_for(lambda: f'"key_variable": "{KEY}"}}\n' in log.read_text(), START_SECONDS + 30, process, log)
    url = json.loads(log.read_text().partition(" served: ")[2].partition("\n")[0])["url"]
    endpoint = {
        **{"url": url, "model": Path(tiny_model).name, "key_variable": KEY, "parallel": 4, "retries": 0},
        **{"constrained": True, "body": {"logit_bias": choosing(tiny_model)}, "timeout_seconds": 60},
    }
    settings = Oni(model="retrieval", annotator="endpoint", endpoint=endpoint, queue={"batch": 4, "attempts": 2})
    desk = RewardDesk(OniShaper(settings, TWENTY), steady=True)

    def shape(number: int, *captions: str):
        episode = telling(number, *captions)
        desk.receive(episode)
        return desk.shape(number, [name_of(episode)])[0]

    def figures(*names: str) -> tuple[float, ...]:
        found = desk.metrics()
        return tuple(found.get(f"reward/oni/{name}", 0.0) for name in names)

    first = [f"the guesser asks about thing {number}: yes" for number in range(6)]
    shape(0, *first)
    shape(1, *first)
    assert figures("seen", "labelled", "pending", "queued", "given_up") == (6, 6, 0, 0, 0)
    assert figures("endpoint/requests", "endpoint/answers") == (6, 6)
    assert set(desk.shaper.labels.answers.values()) <= {0.0, 1.0}
    free = AnnotatorEndpoint(**endpoint | {"constrained": False, "body": {}, "max_tokens": 3})
    said = EndpointAnnotator(free, TWENTY).annotate([(caption,) for caption in first])
    assert set(said) <= {0.0, 1.0, Failed("unreadable")} and Failed("unreadable") in said, "it says anything if it may"
    unknown = EndpointAnnotator(AnnotatorEndpoint(**endpoint | {"model": "another"}), TWENTY)
    assert unknown.annotate([("a",), ("a", "b")]) == [Failed("HTTP_404")] * 2
    locked = EndpointAnnotator(AnnotatorEndpoint(**endpoint | {"key_variable": ""}), TWENTY)
    assert locked.annotate([("a",)]) == [Failed("HTTP_401")]

    server = server_of(process)
    everybody = [server, *server.children(recursive=True)]
    for each in everybody:
        each.kill()
    later = [f"the guesser guesses thing {number}: wrong" for number in range(4)]
    for number in range(2, 6):
        paid = shape(number, *first, *later)
        assert len(paid.rewards) == 10 and paid.version == 1, "play goes on with what is known"
    assert figures("seen", "labelled", "given_up") == (10, 6, 4) and desk.metrics()["reward/failed_refits"] == 0
    failures = desk.shaper.queue.failures  # ReadError: on a connection of before
    assert sum(failures.values()) == 8 and set(failures) <= {"ConnectError", "ReadError"}
    assert figures("failed/ConnectError")[0] == failures["ConnectError"] > 0
    assert process.wait(STOP_SECONDS) == 1
    assert "parley: the server of" in log.read_text() and "ended by itself (exit code -9)" in log.read_text()


@pytest.mark.long
@pytest.mark.timeout(560)
def test_who_is_stopped_while_it_loads_leaves_nobody_behind(command):
    process, log = command
    wait_for(lambda: "loading" in log.read_text() and children(process), START_SECONDS, process, log)
    server = server_of(process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(STOP_SECONDS) == 130 and log.read_text().rstrip().endswith("parley: stopped")
    assert not server.is_running() and not [each for each in psutil.process_iter() if _in_group(each, server.pid)]


def _in_group(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def test_what_cannot_be_served_is_said_before_anything_is_loaded(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for words, problem in (
            ([str(tmp_path / "nowhere")], "no model folder at"),
            (["embedded", "--port", str(port)], f"cannot listen at 127.0.0.1:{port}: Address already in use"),
            (["embedded", "rollout.engine.kind=nope"], "rollout.engine.kind"),
            (["embedded", "--host", "0.0.0.0"], f"--host 0.0.0.0 lets others call: set {KEY_VARIABLE} to the key"),
        ):
            assert main(["serve-model", *words]) in (1, 2)
            assert problem in capsys.readouterr().err


def test_a_server_that_says_nothing_is_a_counted_failure():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        settings = AnnotatorEndpoint(url=url, model="m", timeout_seconds=0.3, retries=0)
        started = time.monotonic()
        annotator = EndpointAnnotator(settings, TWENTY)
        assert annotator.annotate([("a",), ("b",)]) == [Failed("ReadTimeout")] * 2
        assert time.monotonic() - started < 60
    elsewhere = EndpointAnnotator(AnnotatorEndpoint(url="nonsense", model="m", retries=0), TWENTY)
    assert elsewhere.annotate([("a",)]) == [Failed("UnsupportedProtocol")]
    assert "guess" in goal_of(TWENTY) and annotator.goal == goal_of(TWENTY)


def test_a_key_that_is_not_there_is_named_with_the_first_batch(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    endpoint = {"url": "http://127.0.0.1:9/v1", "model": "m", "key_variable": "NO_SUCH_KEY"}
    shaper = OniShaper(Oni(annotator="endpoint", endpoint=endpoint), TWENTY)
    with pytest.raises(ValueError, match="reward.shaper.endpoint.key_variable=NO_SUCH_KEY: that environment variable"):
        shaper.shape([telling(0, "a")])
