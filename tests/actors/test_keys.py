"""Keys of endpoints, which the program that starts a run has, reach processes of nodes that have none."""

from __future__ import annotations

import os

import ray

import actors.fleet.processes
from actors.fleet.processes import WorkerProcesses
from actors.settings import RolloutSettings
from actors.worker_parts import WorkerSpec
from envs.settings import EndpointSettings, GameSettings, keys_of
from reward_service.remote import RewardService
from reward_service.settings import RewardSettings
from reward_service.shapers.oni import Oni

ENDPOINT = {"url": "http://127.0.0.1:9/v1", "model": "m"}
RIVAL, ORACLE, ANNOTATOR = (f"PARLEY_TEST_KEY_OF_{name}" for name in ("RIVAL", "ORACLE", "ANNOTATOR"))
GAME = GameSettings(name="parrot", options={"endpoint": ENDPOINT | {"key_variable": ORACLE}})


class Asked:
    """In a worker's place: what it was started with."""

    def __init__(self, spec, index):
        self.keys = {name: os.environ.get(name) for name in (RIVAL, ORACLE)}

    def ready(self):
        return self.keys


def test_keys_are_found_wherever_settings_name_them(monkeypatch):
    monkeypatch.setenv(RIVAL, "one")
    monkeypatch.setenv(ORACLE, "two")
    monkeypatch.delenv(ANNOTATOR, raising=False)
    endpoints = {"rival": EndpointSettings(**ENDPOINT, key_variable=RIVAL), "open": EndpointSettings(**ENDPOINT)}
    other = EndpointSettings(**ENDPOINT, key_variable=ANNOTATOR)
    assert keys_of(RolloutSettings(endpoints=endpoints), GAME, other) == {RIVAL: "one", ORACLE: "two"}


def test_workers_have_the_keys_of_rivals_and_oracles(ray_cluster, monkeypatch):
    monkeypatch.setenv(RIVAL, "one")  # Ray runs already, so its processes do not have them
    monkeypatch.setenv(ORACLE, "two")
    monkeypatch.setattr(actors.fleet.processes, "RolloutWorker", Asked)
    settings = RolloutSettings(endpoints={"rival": EndpointSettings(**ENDPOINT, key_variable=RIVAL)})
    processes = WorkerProcesses(settings, WorkerSpec("run", "", {"parrot": GAME}, settings), None, lambda *_: None)
    worker = processes._create(0, 0)
    try:
        assert ray.get(worker.ready.remote(), timeout=60) == {RIVAL: "one", ORACLE: "two"}
    finally:
        ray.kill(worker)


def test_the_reward_service_has_the_key_of_its_annotator(ray_cluster, monkeypatch):
    monkeypatch.setenv(ANNOTATOR, "three")
    shaper = Oni(annotator="endpoint", endpoint=ENDPOINT | {"key_variable": ANNOTATOR})
    service = RewardService(RewardSettings(shaper=shaper), GameSettings(), "keys", steady=True)
    try:
        there = service.actor.__ray_call__.remote(lambda _: os.environ.get(ANNOTATOR))
        assert ray.get(there, timeout=60) == "three"
    finally:
        service.close()
