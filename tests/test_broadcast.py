"""A broadcast that somebody drops out of, over gloo: the code that runs over NCCL.

Rollout workers and ZeRO-3 ranks are real processes and are really killed. Each of them is
caught at the same place: the others are in the broadcast of a bucket, or on the way to it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from actors.settings import RolloutSettings
from actors.worker import RolloutWorker, WorkerSpec
from envs.settings import GameSettings
from learners.group import LearnerError, LearnerGroup
from learners.settings import LearnerSettings
from tests.engines import engine_settings
from tests.learner_batches import MADE_UP, make_batch

SILENCE = 6.0  # seconds, of this configuration


class Worker(RolloutWorker):
    """A rollout worker that can be told to drop out as it is about to receive a bucket."""

    def drop_out(self, with_signal: int, bucket: int) -> None:
        self.left, self.signal = bucket, with_signal

    def update_weights(self, update_info):
        self.left = getattr(self, "left", 0) - 1
        if self.left == 0:
            os.kill(os.getpid(), self.signal)
        super().update_weights(update_info)

    def open_files(self) -> int:
        return len(os.listdir("/proc/self/fd"))

    def circle_threads(self) -> int:
        return sum(thread.name.startswith("circle") for thread in threading.enumerate())


@pytest.fixture(scope="module")
def model(tiny_model, tmp_path_factory):
    """Wide enough for several buckets of 1 MiB."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("broadcast")
    config = AutoConfig.from_pretrained(tiny_model)
    config.hidden_size, config.intermediate_size = 256, 1200
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return folder


def learners(model: Path, name: str, ranks: int = 2) -> LearnerGroup:
    sync = {"transport": "gloo", "bucket_mib": 1, "timeout_seconds": 60, "silence_seconds": SILENCE}
    settings = LearnerSettings(ranks=ranks, zero=3, sync=sync, learning_rate=1e-3, **MADE_UP)
    group = LearnerGroup(settings, str(model), 1.0, 0, name)
    group.start()
    return group


@pytest.fixture(scope="module")
def group(ray_cluster, model):
    group = learners(model, "test-broadcast")
    yield group
    group.close()


@pytest.fixture(scope="module")
def recruit(ray_cluster, model):
    """Starts workers; those that nobody killed are ended with the module."""
    settings = RolloutSettings(engine=engine_settings("transformers"))
    spec = WorkerSpec("broadcast", str(model), {"twenty_questions": GameSettings()}, settings, transport="gloo")
    started = []

    def recruit(count: int) -> list:
        made = [ray_cluster.remote(Worker).options(num_cpus=0, max_concurrency=8).remote(spec, i) for i in range(count)]
        ray_cluster.get([worker.ready.remote() for worker in made], timeout=120)
        started.extend(made)
        return made

    yield recruit
    for worker in started:
        ray_cluster.kill(worker)


def holds(ray, worker, group) -> bool:
    """Whether the worker computes with the weights that the learners hold now."""
    sequence = [5, 9, 12, 3, 30, 8, 41, 17]
    theirs = ray.get(worker.score.remote([sequence]), timeout=60)[0]
    return float(np.abs(theirs - group.score([sequence])[0]).max()) < 1e-4


def test_deaths(ray_cluster, group, recruit):
    ray = ray_cluster
    first, survivor = recruit(2)
    group.update(*make_batch(6, seed=1))
    t = time.monotonic()
    group.send_weights([first, survivor], version=1)
    print("first", time.monotonic() - t)
    assert holds(ray, first, group) and holds(ray, survivor, group)
    for kind in (signal.SIGKILL, signal.SIGSTOP):
        (victim,) = recruit(1)
        ray.get(victim.drop_out.remote(kind, 3), timeout=30)
        t = time.monotonic()
        with pytest.raises(LearnerError) as e:
            group.send_weights([victim, survivor], version=2)
        print(kind, time.monotonic() - t, e.value)
        t = time.monotonic()
        group.send_weights([first, survivor], version=2)
        print(
            "again",
            time.monotonic() - t,
            ray.get(survivor.open_files.remote()),
            ray.get(survivor.circle_threads.remote()),
        )
        assert holds(ray, first, group) and holds(ray, survivor, group)
