"""The fleet on real Ray actors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from ray.exceptions import RayActorError, RayTaskError, RuntimeEnvSetupError

from actors.fleet.cluster_news import ClusterNews, News
from actors.fleet.finished import Finished
from actors.fleet.fleet import Fleet
from actors.fleet.health import FleetExhausted
from actors.fleet.places import FleetError
from actors.play.snapshots import Snapshot
from actors.settings import RolloutSettings
from actors.worker_parts import WorkerSpec
from envs.episode import Ticket
from envs.settings import GameSettings
from tests.support.engines import bucket_of, engine_settings, model_logprobs, model_of

WAIT = 60.0


def tickets(numbers: range, attempt: int = 0) -> list[Ticket]:
    seats = (("guesser", "policy"),)
    return [Ticket("run", "twenty_questions", number, 40 + number, seats, attempt) for number in numbers]


def new_fleet(path: str, run: str, **changes) -> Fleet:
    fields = {
        "workers": 2,
        "episodes_in_flight": 16,
        "max_utterance_tokens": 8,
        "max_worker_restarts": 2,
        "snapshot_seconds": 0.05,
        "engine": engine_settings("transformers"),
    }
    settings = RolloutSettings(**{**fields, **changes})
    spec = WorkerSpec(run, path, {"twenty_questions": GameSettings()}, settings, transport="object_store")
    return Fleet(settings, spec)


def collect(fleet: Fleet, count: int) -> list[Finished]:
    got, deadline = [], time.monotonic() + WAIT
    while len(got) < count:
        assert time.monotonic() < deadline, f"only {len(got)} of {count} tickets came back"
        got += fleet.poll(1.0)
    assert len(got) == count
    return sorted(got, key=lambda finished: finished.ticket.number)


def join_all(fleet: Fleet, workers: int = 2) -> None:
    deadline = time.monotonic() + WAIT
    while len(fleet.workers()) < workers:
        assert time.monotonic() < deadline, "the replacement does not come up"
        assert fleet.poll(1.0) == []
    for worker in fleet.joining():
        fleet.joined(worker)


@pytest.fixture(scope="module")
def fleet(ray_cluster, tiny_model):
    fleet = new_fleet(str(tiny_model), "test")
    fleet.start()
    assert len(fleet.joining()) == 2
    fleet.assign(tickets(range(4)))
    assert fleet.poll(0.5) == []  # none of them holds the current weights yet
    join_all(fleet)
    assert len(collect(fleet, 4)) == 4
    yield fleet
    fleet.close()


def bytes_of(ray, results: list[Finished]) -> list:
    episodes = ray.get([finished.ref for finished in results], timeout=WAIT)
    return [
        [(t.utterance, t.tokens.utterance_ids.tobytes(), t.tokens.logprobs.tobytes()) for t in episode.turns]
        for episode in episodes
    ]


def test_every_ticket_comes_back_once_and_the_same_ones_give_the_same_bytes(ray_cluster, fleet):
    runs = []
    for attempt in range(2):
        wanted = tickets(range(50), attempt)
        fleet.assign(wanted)
        results = collect(fleet, 50)
        assert [finished.ticket for finished in results] == wanted
        assert all(finished.reason is None and finished.summary.tokens > 0 for finished in results)
        runs.append(bytes_of(ray_cluster, results))
    assert runs[0] == runs[1] and fleet.poll(0.2) == []


def test_nothing_moves_while_paused_and_nothing_is_lost(fleet):
    fleet.assign(tickets(range(80)))
    fleet.pause()
    before = [status["steps"] for status in fleet.status()]
    early = fleet.poll(0.3)
    while more := fleet.poll(0.3):  # what had finished before the pause
        early += more
    assert [status["steps"] for status in fleet.status()] == before
    fleet.resume()
    collect(fleet, 80 - len(early))


def test_a_sync_reaches_every_worker_and_shows_in_the_scores(ray_cluster, fleet, tiny_model):
    model = model_of(str(tiny_model), seed=30, shake=0.2)
    sequence = list(range(3, 60))
    fleet.pause()
    info, payload = bucket_of(model.named_parameters())
    info["reference"] = [ray_cluster.put(payload)]
    for method, arguments in (
        ("init_weight_transfer_engine", ({},)),
        ("start_weight_update", ()),
        ("update_weights", (info,)),
        ("finish_weight_update", ("7",)),
    ):
        ray_cluster.get([getattr(worker, method).remote(*arguments) for worker in fleet.workers()], timeout=WAIT)
    scores = fleet.score([sequence])
    assert list(scores) == [0, 1]
    for (score,) in scores.values():
        assert np.abs(score - model_logprobs(model, sequence)).max() < 1e-4
    fleet.resume()
    fleet.assign(tickets(range(6)))
    assert {(f.summary.oldest_version, f.summary.newest_version) for f in collect(fleet, 6)} == {(7, 7)}


def test_a_call_that_fails_is_its_callers_and_the_worker_goes_on(ray_cluster, fleet):
    worker = fleet.workers()[0]
    with pytest.raises(ValueError, match="needs nothing to start, but got"):
        ray_cluster.get(worker.init_weight_transfer_engine.remote({"port": 1}), timeout=WAIT)
    fleet.assign(tickets(range(4)))
    assert {finished.reason for finished in collect(fleet, 4)} == {None}


def test_a_killed_worker_gives_its_tickets_back_and_is_replaced(ray_cluster, fleet):
    fleet.assign(tickets(range(20)))
    kept = collect(fleet, 20)
    pid = ray_cluster.get(fleet.workers()[0].ready.remote(), timeout=WAIT)
    fleet.assign(tickets(range(200, 320)))
    results = []
    while len(results) < 20 or len(fleet.snapshots.keys() & fleet.with_worker[0]) < 4:
        assert len(results) < 80, "no episode of worker 0 was seen in the middle of a game"
        results += fleet.poll(1.0)
    os.kill(pid, signal.SIGKILL)
    results += collect(fleet, 120 - len(results))
    reasons = Counter(finished.reason for finished in results)
    assert set(reasons) == {None, "worker_died"} and reasons["worker_died"] >= 16
    assert len(fleet.workers()) == 1 and fleet.health.restarts == 1
    again = [finished.ticket for finished in results if finished.reason]
    fleet.assign([replace(ticket, attempt=1) for ticket in again])
    assert fleet.counters["resumed"] > 0 == fleet.tokens.kept
    resumed = collect(fleet, len(again))  # the one that is left plays them
    assert all(finished.reason is None and finished.summary.tokens == finished.tokens for finished in resumed)
    assert fleet.tokens.playing == 0 and not fleet.snapshots and not fleet.rescued
    assert "snapshot_refused" not in fleet.tokens.lost
    assert fleet.tokens.handed_over + sum(fleet.tokens.lost.values()) == fleet.tokens.sampled
    assert len(bytes_of(ray_cluster, kept)) == 20  # what the dead worker had finished is still there
    join_all(fleet)
    fleet.assign(tickets(range(10)))
    assert {finished.reason for finished in collect(fleet, 10)} == {None}
    assert len(fleet.status()) == 2


def test_an_episode_whose_snapshot_is_refused_is_counted_and_so_are_its_tokens(fleet):
    wanted, before = tickets(range(4), attempt=1), fleet.metrics()
    unreadable = [Snapshot(replace(ticket, attempt=0), 5, b"nobody reads this") for ticket in wanted[:3]]
    fleet.rescued |= {snapshot.next_ticket: snapshot for snapshot in unreadable}
    fleet.tokens.kept += 15
    fleet.assign(wanted)
    assert {finished.reason for finished in collect(fleet, 4)} == {None}
    after = fleet.metrics()
    assert [after[name] - before[name] for name in ("fleet/resumed", "fleet/snapshots_refused")] == [3, 3]
    assert fleet.tokens.lost["snapshot_refused"] == 15 and fleet.tokens.playing == 0


def test_an_answer_that_breaks_off_in_the_middle_names_the_death(ray_cluster):
    class Dying:
        def tell(self):
            yield "three results follow"
            yield 1
            time.sleep(0.5)  # what was said has arrived
            os._exit(1)

    worker = ray_cluster.remote(num_cpus=0)(Dying).remote()
    call = worker.tell.options(num_returns="streaming").remote()
    assert ray_cluster.get(Fleet._next(call), timeout=WAIT) == "three results follow"
    with pytest.raises(RayActorError):
        for _ in range(3):
            Fleet._next(call)


def test_an_engine_that_breaks_is_a_lost_worker_and_replace_lost_sees_it(ray_cluster, fleet):
    worker = fleet.workers()[1]
    assert not fleet.replace_lost()
    ray_cluster.get(worker.start_weight_update.remote(), timeout=WAIT)
    with pytest.raises(ValueError, match="lacks reference"):
        ray_cluster.get(worker.update_weights.remote({"names": []}), timeout=WAIT)
    fleet.assign(tickets(range(10)))  # a step on half an update ends the engine thread
    results = collect(fleet, 10)
    assert {f.ticket.number for f in results if f.reason == "worker_failed"} == {1, 3, 5, 7, 9}

    def hear(index: int, _) -> None:
        if index == 1:
            raise RuntimeEnvSetupError("its node cannot fetch the working directory")
        raise RayTaskError("finished", "Traceback\nValueError: of no use", ValueError("of no use"))

    with pytest.raises(
        FleetExhausted, match=r"max_worker_restarts=2 .* \(0\) of: worker_failed: ValueError: of no use"
    ):
        for index in (1, 1, 1, 0, 0, 0):
            fleet._guarded(index, hear, None)
    fleet.close()
    fleet.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpus_per_worker": 300.0}, r"rollout.workers=2 with 300 CPUs each need 600 CPUs, but the Ray cluster has 4"),
        ({"gpus_per_worker": 1.0}, r"need 2 GPUs, but the Ray cluster has 0"),
    ],
)
def test_more_than_the_cluster_has_is_refused_before_waiting(ray_cluster, tiny_model, changes, message):
    started = time.monotonic()
    with pytest.raises(FleetError, match=message):
        new_fleet(str(tiny_model), "big", **changes).start()
    assert time.monotonic() - started < 5


def test_an_engine_that_cannot_start_says_why(ray_cluster, tmp_path):
    fleet = new_fleet(str(tmp_path / "nothing"), "nothing", workers=1)
    with pytest.raises(FleetError, match="the fleet did not start: rollout worker 0: .*nothing"):
        fleet.start()
    fleet.close()


def test_a_fleet_that_still_starts_ends_at_once(ray_cluster, tiny_model):
    fleet = new_fleet(str(tiny_model), "test-at-once", workers=1)
    fleet.launch()
    began = time.monotonic()
    fleet.close()
    assert time.monotonic() - began < 4


@pytest.mark.long
def test_a_worker_that_leaves_says_first_how_its_episodes_stand(ray_cluster, tiny_model):
    fleet = new_fleet(str(tiny_model), "leaves", workers=1, snapshot_seconds=3600.0)  # none is due before
    fleet.start()
    node, draining = ray_cluster.get_runtime_context().get_node_id(), {}

    def ask() -> News:
        placed = {place.group.id.hex(): node for place in fleet.processes.places.asked.values()}
        return News(frozenset({node}), placed, dict(draining))

    fleet.processes.news = ClusterNews(ask, every_seconds=0.1)
    join_all(fleet, 1)
    fleet.assign(tickets(range(1000)))  # more than are played until then
    results = fleet.poll(WAIT)
    assert results and not fleet.snapshots
    draining[node] = time.monotonic() + 11.0
    while not fleet.health.left_count:
        results += fleet.poll(1.0)
    results += fleet.poll(0.0)
    left = {finished.ticket for finished in results if finished.reason == "node_drained"}
    assert len(results) == 1000 and fleet.tokens.playing == fleet.tokens.kept > 0
    assert 1 <= len(fleet.rescued) <= 16, "those in play that had a turn; others had not begun"
    assert fleet.tokens.lost["node_drained"] <= 16 * 8, "of each episode a turn at most"
    draining.clear()
    again = [ticket for ticket in fleet.rescued if replace(ticket, attempt=0) in left]
    join_all(fleet, 1)
    fleet.assign(again)
    assert {finished.reason for finished in collect(fleet, len(again))} == {None}
    assert fleet.counters["resumed"] == len(again) > 0 == fleet.counters["refused"]
    fleet.close()


DRIVER = """
import sys, time, ray
from tests.actors.test_fleet import new_fleet
ray.init(address=sys.argv[1], log_to_driver=False)
fleet = new_fleet(sys.argv[2], "orphan", workers=1)
fleet.start()
print("pid", ray.get(fleet.workers()[0].ready.remote()), flush=True)
time.sleep(600)
"""


def test_a_worker_does_not_outlive_its_driver(ray_cluster, tiny_model):
    address = ray_cluster.get_runtime_context().gcs_address
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, address, str(tiny_model)], stdout=subprocess.PIPE, text=True
    )
    try:
        line = next(line for line in driver.stdout if line.startswith("pid"))
    finally:
        driver.kill()
        driver.wait(10)
    pid, deadline = int(line.split()[1]), time.monotonic() + WAIT
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline, "the worker outlived its driver"
        time.sleep(0.2)
