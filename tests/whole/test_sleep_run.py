"""A fleet that sleeps while the learners update, and whole runs that do."""

from __future__ import annotations

import os
import signal

import pytest

from actors.fleet.fleet import Fleet
from learners.group import LearnerGroup
from tests.actors.test_fleet import WAIT, bytes_of, collect, new_fleet, tickets
from tests.support.engines import bucket_of, model_of
from tests.support.runs import assert_whole, config_for, metrics_of, run


def send_same_weights(ray, fleet, path: str) -> None:
    info, payload = bucket_of(model_of(path).named_parameters())
    info["reference"] = [ray.put(payload)]
    for method, arguments in (
        ("start_weight_update", ()),
        ("update_weights", (info,)),
        ("finish_weight_update", ("0",)),
    ):
        ray.get([getattr(worker, method).remote(*arguments) for worker in fleet.workers()], timeout=WAIT)


@pytest.mark.long
def test_a_fleet_sleeps_until_the_sync_and_no_engine_starts_meanwhile(ray_cluster, tiny_model):
    fleet = new_fleet(str(tiny_model), "asleep")
    fleet.start()
    try:
        for worker in fleet.joining():
            fleet.joined(worker)
        fleet.assign(tickets(range(60)))
        awake = collect(fleet, 60)
        with fleet.no_starts():
            fleet.sleep()
            fleet.assign(tickets(range(60), attempt=1))
            steps = [status["steps"] for status in fleet.status()]
            assert fleet.poll(0.5) == [] and [status["steps"] for status in fleet.status()] == steps
            send_same_weights(ray_cluster, fleet, str(tiny_model))
        assert bytes_of(ray_cluster, collect(fleet, 60)) == bytes_of(ray_cluster, awake)

        os.kill(ray_cluster.get(fleet.workers()[1].ready.remote(), timeout=WAIT), signal.SIGKILL)
        with fleet.no_starts():
            fleet.sleep()
            assert fleet.health.restarts == 1 and len(fleet.workers()) == 1
            assert fleet.poll(0.3) == [] and not fleet.processes.starting
            send_same_weights(ray_cluster, fleet, str(tiny_model))
        assert len(fleet.processes.starting) == 1
        with fleet.no_starts():
            assert len(fleet.joining()) == 1, "the learners would be at work while an engine starts"
    finally:
        fleet.close()


def outcome_of(config):
    summary, folder = run(config)
    (newest,) = folder.checkpoints.glob("update-000002/policy/model.safetensors")
    rows = [
        {name: row[name] for name in row if name.startswith(("rollout/outcome", "learner/loss"))}
        for row in metrics_of(folder)
    ]
    return newest.read_bytes(), summary["evaluations"], rows


@pytest.mark.long
def test_a_run_with_sleep_has_the_bytes_of_the_run_without(ray_cluster, parrot_model, tmp_path, monkeypatch):
    sleep, slept = Fleet.sleep, []
    monkeypatch.setattr(Fleet, "sleep", lambda fleet: slept.append(sleep(fleet)))
    runs = [
        outcome_of(
            config_for(
                parrot_model,
                tmp_path / str(sleeps),
                updates=2,
                max_staleness=0,
                rollout={"engine": {"kind": "transformers", "sleep": sleeps}},
            )
        )
        for sleeps in (False, True)
    ]
    assert runs[0] == runs[1] and len(slept) == 2  # once for each update of the second


@pytest.mark.long
def test_a_run_whose_play_is_ahead_sleeps_too(ray_cluster, parrot_model, tmp_path):
    rollout = {"workers": 2, "engine": {"kind": "transformers", "sleep": True}}
    summary, folder = run(config_for(parrot_model, tmp_path, rollout=rollout))
    assert_whole(summary, folder, updates=3, batch=8)
    assert summary["failures"] == {} and max(row["rollout/staleness"] for row in metrics_of(folder)) == 1


@pytest.mark.long
@pytest.mark.parametrize("method", ["save", "score"])
def test_ranks_that_start_anew_find_the_engines_asleep(ray_cluster, parrot_model, tmp_path, monkeypatch, method):
    """On a card they have no room beside them. What comes after goes on with engines that are awake."""
    happened, plain, restart, sleep = [], getattr(LearnerGroup, method), LearnerGroup.restart, Fleet.sleep

    def hurt(group, *arguments):
        happened.append(method)
        if happened.count(method) == 2:
            os.kill(ray_cluster.get(group.actors[0].process.remote()), signal.SIGKILL)
        return plain(group, *arguments)

    monkeypatch.setattr(LearnerGroup, method, hurt)
    monkeypatch.setattr(LearnerGroup, "restart", lambda group: (happened.append("restart"), restart(group))[1])
    monkeypatch.setattr(Fleet, "sleep", lambda fleet: (happened.append("sleep"), sleep(fleet))[1])
    engine = {"kind": "transformers", "sleep": True}
    more = {"rollout": {"engine": engine}, "learner": {"sync": {"probe_every": 1}}}
    summary, folder = run(config_for(parrot_model, tmp_path, checkpoint={"every": 1}, **more))
    assert happened[happened.index("restart") - 1] == "sleep" and happened.count("restart") == 1
    assert_whole(summary, folder, updates=3, batch=8)
    assert summary["failures"] == {} and metrics_of(folder)[-1]["fleet/restarts"] == 0
