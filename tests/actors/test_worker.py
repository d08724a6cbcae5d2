"""The calls of a rollout worker: each is answered, and a ticket that was taken is played or given back."""

from __future__ import annotations

import threading
import time

import pytest

import actors.worker
from actors.settings import RolloutSettings
from actors.worker import RolloutWorker, WorkerFailed
from actors.worker_parts import WorkerSpec, make_cast
from envs.settings import GameSettings
from tests.support.engines import engine_settings
from tests.support.play import tickets

WAIT = 60.0


@pytest.fixture
def worker(tiny_model):
    settings = RolloutSettings(engine=engine_settings("transformers"), max_utterance_tokens=4)
    made = RolloutWorker(WorkerSpec("calls", str(tiny_model), {"twenty_questions": GameSettings()}, settings), 0)
    made.ready()
    yield made
    made.close()


@pytest.fixture
def held(worker):
    """Its engine thread does nothing until this is set."""
    release, reached = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        release.wait(WAIT)

    worker._post(hold)
    assert reached.wait(WAIT)
    yield release
    release.set()


def test_the_time_that_an_engine_takes_to_start_is_no_silence(tiny_model, monkeypatch):
    monkeypatch.setattr(RolloutWorker, "_tick", lambda worker: time.sleep(0.01))  # no later sign of life
    settings = RolloutSettings(engine=engine_settings("transformers"))
    worker = RolloutWorker(WorkerSpec("late", str(tiny_model), {}, settings), 0)
    time.sleep(2.0)  # nobody has asked for the engine yet
    worker.ready()
    (report,) = worker.finished(0.0)
    assert report.silent_seconds < 1.0
    worker.close()


def raises(error: BaseException):
    def command():
        raise error

    return command


def test_what_a_command_raises_is_its_caller_s(worker):
    for error in (TimeoutError("the store did not answer"), RuntimeError("no weights")):
        with pytest.raises(type(error), match=str(error)):
            worker._call(raises(error))
    worker.alive()


def test_a_command_that_ends_the_thread_is_answered_too(worker):
    with pytest.raises(SystemExit):
        worker._call(raises(SystemExit("vLLM gave up")))
    worker.thread.join(WAIT)
    with pytest.raises(WorkerFailed, match="SystemExit: vLLM gave up"):
        worker.alive()


def test_a_call_that_waited_for_too_long_leaves_those_that_wait_their_answer(worker, held, monkeypatch):
    """Also if the thread then dies: an answer that nobody waits for any more does not stop it from telling them."""
    monkeypatch.setattr(actors.worker, "COMMAND_SECONDS", 0.1)
    with pytest.raises(WorkerFailed, match="no answer within"):
        worker.pause()
    worker._post(raises(RuntimeError("the card is lost")))
    gone, waits = threading.Event(), []

    def wait() -> None:
        monkeypatch.setattr(actors.worker, "COMMAND_SECONDS", WAIT)
        gone.set()
        try:
            worker.resume()
        except WorkerFailed as error:
            waits.append(str(error))

    caller = threading.Thread(target=wait)
    caller.start()
    assert gone.wait(WAIT)
    deadline = time.monotonic() + WAIT
    while worker.commands.qsize() < 3:
        assert time.monotonic() < deadline
    held.set()
    caller.join(WAIT)
    assert waits == ["rollout worker 0: RuntimeError: the card is lost"]


def test_tickets_are_taken_on_however_long_the_engine_is_busy(worker, held, monkeypatch):
    monkeypatch.setattr(actors.worker, "COMMAND_SECONDS", 0.1)
    worker.play(tickets(2, "twenty_questions"))
    time.sleep(0.3)
    held.set()
    found, deadline = [], time.monotonic() + WAIT
    while len(found) < 2 and time.monotonic() < deadline:
        report, *_ = worker.finished(1.0)
        found += [result.ticket.number for result in report.results]
    assert sorted(found) == [0, 1]


def test_a_worker_that_cannot_take_tickets_on_fails(worker, monkeypatch):
    """Or whoever handed them out would wait for them for ever."""

    def refuse(*arguments) -> None:
        raise RuntimeError("the cache cannot be dropped")

    monkeypatch.setattr(worker.play_state, "admit", refuse)
    worker.play(tickets(1, "twenty_questions"))
    worker.thread.join(WAIT)
    with pytest.raises(WorkerFailed, match="the cache cannot be dropped"):
        next(worker.finished(0.0))


def test_a_frozen_player_that_the_plain_engine_cannot_play_is_named(tiny_model, folder_of):
    settings = RolloutSettings(engine=engine_settings("transformers"), frozen={"old": str(folder_of("mistral", False))})
    with pytest.raises(ValueError, match=r"rollout\.frozen\.old, which the transformers engine plays: .*window of 16"):
        make_cast(WorkerSpec("cast", str(tiny_model), {}, settings), None)
