"""Engines that give their memory back while the learners update: nothing of what they say changes."""

from __future__ import annotations

import threading
import time
import weakref

import numpy as np
import pytest

import actors.worker
from actors.settings import RolloutSettings
from actors.worker import RolloutWorker, WorkerFailed
from actors.worker_parts import WorkerSpec
from envs.settings import GameSettings
from tests.actors.test_fleet import WAIT, tickets
from tests.support.engines import KINDS, drain, engine_settings, largest_gap, model_of, requests, send, shared_engine

PARTS = ("weights", "cache")


@pytest.fixture(params=KINDS)
def engine(request, tiny_model):
    """vLLM sleeps on a GPU only; what its scheduler does with requests is the same on a CPU."""
    engine = shared_engine(request.param, str(tiny_model))
    engine.forget()
    return engine


def said(done) -> dict[str, tuple[bytes, bytes]]:
    return {name: (each.token_ids.tobytes(), each.versions.tobytes()) for name, each in done.items()}


def steps(engine, count: int) -> dict:
    return {completion.id: completion for _ in range(count) for completion in engine.step()}


def test_requests_in_flight_over_a_sleep_say_the_same(engine, tiny_model):
    model = model_of(str(tiny_model), seed=40, shake=0.2)
    send(engine, model, 1)
    wanted = requests(40, model.config.vocab_size, tokens=24, seed=8)  # more than run at once
    outcomes = []
    for sleeps in (False, True):
        engine.forget()
        for request in wanted:
            engine.submit(request)
        done = steps(engine, 10)
        if sleeps:
            assert engine.busy() and len(done) < 40
            engine.sleep()
            engine.sleep()  # nothing more
            for part in PARTS:
                with pytest.raises(RuntimeError, match="computes nothing now: it is asleep"):
                    engine.step()
                with pytest.raises(RuntimeError, match="computes nothing now: it is asleep"):
                    engine.score([[3, 4, 5]])
                engine.wake(part)
                engine.wake(part)
        done |= drain(engine)
        assert len(done) == 40
        assert max(largest_gap(model, request, done[request.id]) for request in wanted) < 1e-4
        outcomes.append(said(done))
    assert outcomes[0] == outcomes[1]


def test_new_weights_come_in_while_the_cache_still_sleeps(engine, tiny_model):
    old, new = (model_of(str(tiny_model), seed=seed, shake=0.2) for seed in (41, 42))
    send(engine, old, 1)
    (request,) = requests(1, old.config.vocab_size, tokens=20, seed=9)
    request = type(request)(request.id, request.prompt_ids, 20, 1.0, 9, ())
    engine.submit(request)
    steps(engine, 8)
    engine.sleep()
    with pytest.raises(RuntimeError, match="weights are asleep"):
        engine.start_weight_update()
    engine.wake("weights")
    send(engine, new, 2)
    with pytest.raises(RuntimeError, match="it is asleep"):
        engine.step()
    engine.wake("cache")
    (done,) = drain(engine).values()
    assert set(done.versions) == {1, 2} and (np.diff(done.versions) >= 0).all()
    for version, model in ((1, old), (2, new)):
        assert largest_gap(model, request, done, only=done.versions == version) < 1e-4


def test_the_plain_engine_really_gives_its_cache_back(tiny_model):
    engine = shared_engine("transformers", str(tiny_model))
    wanted = requests(4, 90, seed=10)
    for request in wanted:
        engine.submit(request)
    engine.step()
    held = [weakref.ref(store) for layer in engine.cache.layers for store in (layer.keys, layer.values)]
    assert held and all(each() is not None for each in held)
    engine.sleep()
    assert all(each() is None for each in held)
    for part in PARTS:
        engine.wake(part)
    drain(engine)
    assert engine.cache.layers[0].keys.shape[0] == engine.settings.max_sequences + 1


def test_vllm_on_a_cpu_refuses_to_sleep_instead_of_only_seeming_to(tiny_model):
    from actors.engines.vllm_engine import VllmEngine

    with pytest.raises(ValueError, match="rollout.engine.sleep=true needs a GPU, or rollout.engine.kind=transformers"):
        VllmEngine(engine_settings("vllm").model_copy(update={"sleep": True}), str(tiny_model))


def test_weights_arrive_in_the_memory_that_a_model_has_after_a_sleep(tiny_model):
    """On a card, the way to the CPU and back gives each weight other memory; here it is given by hand."""
    engine = shared_engine("transformers", str(tiny_model))
    old, new = (model_of(str(tiny_model), seed=seed, shake=0.2) for seed in (43, 44))
    send(engine, old, 1)
    before = [weight.data for weight in engine.model.parameters()]
    engine.sleep()
    for weight in engine.model.parameters():
        weight.data = weight.data.clone()
    for part in PARTS:
        engine.wake(part)
    held = [weakref.ref(tensor) for tensor in before]
    del before
    assert all(each() is None for each in held), "what a sleep gave back is still held"
    send(engine, new, 2)
    assert engine.receipt.faults == []
    (request,) = requests(1, new.config.vocab_size, tokens=20, seed=12)
    engine.submit(request)
    (done,) = drain(engine).values()
    assert largest_gap(new, request, done) < 1e-4


@pytest.mark.parametrize("rest", ["sleep", "pause"])
def test_the_time_at_rest_counts_for_no_episode(rest, tiny_model):
    settings = RolloutSettings(engine=engine_settings("transformers"), max_utterance_tokens=64)
    games = {"twenty_questions": GameSettings()}
    worker = RolloutWorker(WorkerSpec("asleep", str(tiny_model), games, settings), 0)
    worker.ready()
    worker.play(tickets(range(4)))
    deadline = time.monotonic() + WAIT
    while not worker.status()["live"]:
        assert time.monotonic() < deadline, "the worker does not begin"
    getattr(worker, rest)()
    live = list(worker.play_state.live.values())
    assert live, "all games were over before the worker rested"
    began = [each.started for each in live]
    steps = worker.status()["steps"]
    time.sleep(0.3)
    assert worker.status()["steps"] == steps
    worker.start_weight_update()
    worker.finish_weight_update("1")
    worker.resume()
    deadline = time.monotonic() + WAIT
    while worker.status()["steps"] == steps:
        assert time.monotonic() < deadline, "the worker does not play on"
    assert all(each.started - start >= 0.3 for each, start in zip(live, began, strict=True))
    worker.close()


def test_no_engine_is_made_before_it_is_asked_for(tiny_model, monkeypatch):
    """On a shared card the learners come up first, and what it imports is there by then."""
    imported, made = threading.Event(), []

    def make(*arguments):
        made.append(arguments)
        raise ValueError("made")

    monkeypatch.setattr(actors.worker, "import_engine", lambda spec: imported.set())
    monkeypatch.setattr(actors.worker, "make_engine", make)
    settings = RolloutSettings(engine=engine_settings("transformers"))
    worker = RolloutWorker(WorkerSpec("held", str(tiny_model), {}, settings), 0)
    assert imported.wait(WAIT)
    time.sleep(0.3)
    assert not made and not worker.up.is_set()
    with pytest.raises(WorkerFailed, match="made"):
        worker.ready()
