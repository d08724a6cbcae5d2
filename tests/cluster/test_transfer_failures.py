"""Transfers that somebody drops out of: what runs over NCCL and CUDA IPC, over gloo and shared memory.

Rollout workers and ZeRO-3 ranks are real processes and are really killed. All is caught at the
same place: a worker is about to receive a bucket, and the others are at it or on the way to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from actors.engines.vllm_processes import MADE_BY_VLLM, SOCKETS
from actors.own_folder import held, sweep
from actors.settings import RolloutSettings
from actors.transport.broadcast import BroadcastReceiver
from actors.wire.circle import CircleBroken
from actors.worker import RolloutWorker
from actors.worker_parts import WorkerSpec
from envs.settings import GameSettings
from learners.group import LearnerError, LearnerGroup, WorkersUnreached
from learners.settings import LearnerSettings
from tests.support.engines import engine_settings
from tests.support.learner_batches import MADE_UP, make_batch
from tests.support.segments import left_behind, segments

SILENCE = 8.0  # seconds, of this configuration


class Worker(RolloutWorker):
    """A rollout worker that does something as it is about to receive a bucket."""

    then = ()

    def at_bucket(self, number: int, *what) -> None:
        """("kill", process, signal) or ("raise", message)."""
        self.left, self.then = number, what

    def update_weights(self, update_info):
        if self.then:
            self.left -= 1
        if self.then and not self.left:
            (what, *which), self.then = self.then, ()
            if what == "raise":
                raise ValueError(*which)
            os.kill(*which)
        super().update_weights(update_info)

    def process(self) -> int:
        return os.getpid()

    def folder_of_sockets(self) -> str:
        return str(self.engine.processes.folder.path)

    def engine_processes(self) -> list[int]:
        return [handle.proc.pid for handle in self.engine.engine.engine_core.engine_core.model_executor.workers]


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


def learners(model: Path, name: str, transport: str = "gloo", ranks: int = 2, per_worker: int = 1) -> LearnerGroup:
    sync = {"transport": transport, "bucket_mib": 1, "timeout_seconds": 60, "silence_seconds": SILENCE}
    settings = LearnerSettings(ranks=ranks, zero=3, sync=sync, learning_rate=1e-3, **MADE_UP)
    group = LearnerGroup(settings, str(model), 1.0, 0, name, ranks_per_worker=per_worker)
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
    games, started = {"twenty_questions": GameSettings()}, []

    def recruit(
        count: int, transport: str = "gloo", settings: RolloutSettings = settings, policy: Path = model
    ) -> list:
        spec = WorkerSpec("transfer", str(policy), games, settings, transport=transport, ray_metrics=False)
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


def open_files(*processes: int) -> list[int]:
    """The fewest of each within a second: Ray opens one now and then, for a moment."""
    seen = []
    for _ in range(5):
        seen.append([len(list(Path(f"/proc/{process}/fd").iterdir())) for process in processes])
        time.sleep(0.2)
    return [min(each) for each in zip(*seen, strict=True)]


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
def test_a_worker_that_drops_out_is_noticed_and_the_others_go_on(ray_cluster, group, recruit, how):
    victim, survivor = recruit(2)
    group.update(*make_batch(6, seed=1))
    group.send_weights([victim, survivor], version=1)
    assert holds(ray_cluster, victim, group) and holds(ray_cluster, survivor, group)
    group.update(*make_batch(6, seed=2))
    process = ray_cluster.get(victim.process.remote(), timeout=30)
    ray_cluster.get(victim.at_bucket.remote(3, "kill", process, how), timeout=30)
    seen = "died" if how == signal.SIGKILL else f"gave no sign of life for learner.sync.silence_seconds={SILENCE:g}"
    started = time.monotonic()
    with pytest.raises(WorkersUnreached, match=f"weight sync 2: rollout worker 0 {seen}"):
        group.send_weights([victim, survivor], version=2)
    assert time.monotonic() - started < 2 * SILENCE
    ray_cluster.kill(victim)
    with pytest.raises(RuntimeError, match="a weight update (broke off|is under way)"):
        ray_cluster.get(survivor.score.remote([[5, 9]]), timeout=30)
    (replacement,) = recruit(1)
    group.send_weights([replacement, survivor], version=2)
    assert holds(ray_cluster, replacement, group) and holds(ray_cluster, survivor, group)


@pytest.mark.long
def test_a_circle_that_is_left_leaves_nothing_open(ray_cluster, group, recruit):
    one, other = recruit(2)
    ranks = ray_cluster.get([actor.process.remote() for actor in group.actors], timeout=30)
    processes = [*ray_cluster.get([w.process.remote() for w in (one, other)], timeout=30), *ranks]
    counts = []
    for version in range(6):
        if version % 2:
            ray_cluster.get(one.at_bucket.remote(2, "raise", "out of order"), timeout=30)
            with pytest.raises(LearnerError, match="rollout worker 0, update_weights: ValueError: out of order"):
                group.send_weights([one, other], version)
        group.send_weights([one, other] if version % 2 else [other, one], version)
        counts.append(open_files(*processes))
    assert group.update(*make_batch(4, seed=3))["applied"] == 1, "the ranks are still in step"
    grown = [last - first for first, last in zip(counts[1], counts[-1], strict=True)]
    assert max(grown) < 2, f"two circles were left after the first count, and each would keep a file: {counts}"


@pytest.mark.long
def test_a_sender_that_dies_lets_the_workers_go(ray_cluster, model, group, recruit):
    (worker,) = recruit(1)
    doomed = learners(model, "test-doomed")
    try:
        process = ray_cluster.get(doomed.actors[0].process.remote(), timeout=30)
        ray_cluster.get(worker.at_bucket.remote(3, "kill", process, signal.SIGKILL), timeout=30)
        started = time.monotonic()
        with pytest.raises(LearnerError, match="rank 0 died"):
            doomed.send_weights([worker], version=1)
    finally:
        doomed.close()
    group.send_weights([worker], version=2)
    assert time.monotonic() - started < 20
    assert holds(ray_cluster, worker, group)


A_SENDER = """
import time, torch
from actors.wire.circle import Circle, host_store
store = host_store("127.0.0.1", 30)
print(store.port, flush=True)
Circle("gloo", store.clone(), 0, 2, 60, lambda: None).broadcast(torch.arange(9, dtype=torch.uint8))
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_an_engine_process_does_not_wait_for_a_sender_that_is_gone(how):
    sender = subprocess.Popen([sys.executable, "-c", A_SENDER], stdout=subprocess.PIPE, text=True)
    try:
        receiver = BroadcastReceiver()
        where = {"library": "gloo", "address": "127.0.0.1", "port": int(sender.stdout.readline())}
        receiver.meet({**where, "size": 2, "seconds": 60, "silence": 2, "rank_offset": 1})
        assert receiver.read({"nbytes": 9}).tolist() == list(range(9))
        sender.send_signal(how)
        started = time.monotonic()
        with pytest.raises(CircleBroken, match="no sign of life for 2 s" if how == signal.SIGSTOP else None):
            receiver.read({"nbytes": 9})
        assert time.monotonic() - started < 6
        with pytest.raises(CircleBroken, match="was left"):
            receiver.read({"nbytes": 9})
    finally:
        sender.kill()
        sender.wait(30)


@pytest.mark.long
def test_ranks_that_share_memory_with_the_workers_stay_in_step(ray_cluster, model, recruit):
    """The others would wait in a collective for as long as an update may take."""
    failing, steady = recruit(2, "ipc")
    group = learners(model, "test-ipc", "ipc")
    try:
        before = segments()
        group.update(*make_batch(6, seed=4))
        group.send_weights([failing, steady], version=1)
        assert holds(ray_cluster, failing, group) and holds(ray_cluster, steady, group)
        ray_cluster.get(failing.at_bucket.remote(3, "raise", "out of memory"), timeout=30)
        started = time.monotonic()
        with pytest.raises(LearnerError, match="rollout worker 0, update_weights: ValueError: out of memory"):
            group.send_weights([failing, steady], version=2)
        assert group.update(*make_batch(6, seed=5))["applied"] == 1
        assert time.monotonic() - started < 30, "both ranks gave up together"
        process = ray_cluster.get(failing.process.remote(), timeout=30)
        ray_cluster.get(failing.at_bucket.remote(3, "kill", process, signal.SIGKILL), timeout=30)
        with pytest.raises(LearnerError, match="rollout worker 0 died; the others have the weights"):
            group.send_weights([failing, steady], version=3)
        assert holds(ray_cluster, steady, group)
        (replacement,) = recruit(1, "ipc")
        group.send_weights([replacement, steady], version=3)
        assert holds(ray_cluster, replacement, group) and holds(ray_cluster, steady, group)
        assert not left_behind(before)
        process = ray_cluster.get(group.actors[1].process.remote(), timeout=30)
        ray_cluster.get(steady.at_bucket.remote(3, "kill", process, signal.SIGKILL), timeout=30)
        started = time.monotonic()
        with pytest.raises(LearnerError, match="rank [01]"):
            group.send_weights([steady], version=4)
        assert time.monotonic() - started < 20
    finally:
        group.close()


@pytest.mark.long
def test_a_tensor_parallel_engine_takes_part_with_all_its_processes(ray_cluster, model, recruit):
    before, temporary = set(os.listdir("/dev/shm")), set(Path(tempfile.gettempdir()).glob("vllm_*"))
    engine = engine_settings("vllm").model_copy(update={"tensor_parallel": 2})
    (worker,) = recruit(1, settings=RolloutSettings(engine=engine))
    group = learners(model, "test-parallel", ranks=1, per_worker=2)
    try:
        group.update(*make_batch(6, seed=6))
        group.send_weights([worker], version=1)
        assert holds(ray_cluster, worker, group)
        ray_cluster.get(worker.at_bucket.remote(3, "raise", "out of order"), timeout=30)
        with pytest.raises(LearnerError, match="out of order"):
            group.send_weights([worker], version=2)
        group.update(*make_batch(6, seed=7))
        group.send_weights([worker], version=2)
        assert holds(ray_cluster, worker, group), "an update that broke off leaves nothing behind"
        ray_cluster.get(worker.alive.remote(), timeout=30)
        one = ray_cluster.get(worker.engine_processes.remote(), timeout=30)[1]
        ray_cluster.get(worker.at_bucket.remote(3, "kill", one, signal.SIGKILL), timeout=30)
        started = time.monotonic()
        with pytest.raises(LearnerError, match="weight sync 3.*rollout worker 0"):
            group.send_weights([worker], version=3)
        with pytest.raises(RuntimeError, match="a process of the engine died"):
            ray_cluster.get(worker.alive.remote(), timeout=30)
        assert time.monotonic() - started < 20
    finally:
        group.close()
    folder = Path(ray_cluster.get(worker.folder_of_sockets.remote(), timeout=30))
    ray_cluster.kill(worker)
    for _ in range(300):
        if lock := held(folder):
            break
        time.sleep(0.1)
    lock.close()
    sweep(folder.parent, SOCKETS)
    made = set(os.listdir("/dev/shm")) - before
    assert not [name for name in made if name.startswith(MADE_BY_VLLM)], "left by an engine that was killed"
    assert set(Path(tempfile.gettempdir()).glob("vllm_*")) <= temporary, "how its processes found each other"


@pytest.mark.long
def test_a_process_of_an_engine_may_hold_no_word_of_a_short_vocabulary(ray_cluster, parrot_model, recruit):
    engine = engine_settings("vllm").model_copy(update={"tensor_parallel": 2})
    (worker,) = recruit(1, settings=RolloutSettings(engine=engine), policy=parrot_model)
    group = learners(parrot_model, "test-short", ranks=1, per_worker=2)
    try:
        for version in (1, 2):
            group.send_weights([worker], version=version)
            receipt = ray_cluster.get(worker.receipt.remote(), timeout=60)
            assert receipt.version == version and not receipt.faults
    finally:
        group.close()
