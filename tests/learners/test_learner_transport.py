"""Weights out of a real ZeRO-3 group, received by actors that decode the wire format.

(That a vLLM engine then computes with them is proved where engines are started.)
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from actors.transport.digest import digest
from cluster.run.parity import byte_faults
from learners.group import LearnerError, LearnerGroup, environment
from learners.settings import LearnerSettings
from learners.transport.bucket import Bucket, layout
from learners.transport.source import ModuleWeights, buckets
from tests.support.learner_batches import MADE_UP, make_batch
from tests.support.segments import left_behind, segments

HEAD, K, V = "lm_head.weight", *(f"model.layers.0.self_attn.{part}_proj.weight" for part in "kv")  # alike in shape


def receivers(ray, count: int) -> list:
    @ray.remote(num_cpus=0)
    class Receiver:
        """What a sync asks of a rollout worker, on the workers' own reading code."""

        def __init__(self):
            import actors.transport.object_store
            import actors.transport.shared_memory  # noqa: F401  (slow; not part of a sync's time)

            self.weights, self.calls, self.seconds, self.die_at, self.fail_at = {}, [], 0.0, "", ""

        def misbehave(self, seconds: float = 0.0, die_at: str = "", fail_at: str = ""):
            self.seconds, self.die_at, self.fail_at = seconds, die_at, fail_at

        def note(self, call):
            import os
            import signal
            import time

            self.calls.append(call)
            time.sleep(self.seconds)
            if self.fail_at == call and self.calls.count(call) > 1:
                raise ValueError("the second one is bad")
            if self.die_at == call:
                os.kill(os.getpid(), signal.SIGKILL)

        def alive(self):
            pass

        def init_weight_transfer_engine(self, info):
            self.note("init")

        def start_weight_update(self):
            self.note("start")
            self.weights = {}

        def update_weights(self, info):
            from actors.transport.bucket import tensors_of
            from actors.transport.object_store import read_object_store
            from actors.transport.shared_memory import read_shared_memory

            self.note("update")
            payload = read_shared_memory(info) if "segment" in info else read_object_store(info)
            assert all(offset % 64 == 0 for offset in info["offsets"])
            self.weights |= {name: tensor.numpy().copy() for name, tensor in tensors_of(info, payload)}
            self.config = info.get("peft_config")

        def finish_weight_update(self, version):
            self.note("finish")
            self.version = version

        def received(self):
            return self.weights, self.version, self.calls, getattr(self, "config", None)

    started = [Receiver.remote() for _ in range(count)]
    ray.get([receiver.misbehave.remote() for receiver in started], timeout=120)
    return started


@pytest.fixture(scope="module")
def model(tiny_model, tmp_path_factory):
    """Wide enough for several buckets of 1 MiB, one of them filled by a single tensor."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("wide")
    config = AutoConfig.from_pretrained(tiny_model)
    config.hidden_size, config.intermediate_size = 256, 1200
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return folder


def learner(model, name: str, **changes) -> LearnerGroup:
    sync = {"transport": "shared_memory", "bucket_mib": 1, "timeout_seconds": 60} | changes.pop("sync", {})
    settings = LearnerSettings(
        **({"cpus_per_rank": 1, "zero": 3, "sync": sync, "learning_rate": 1e-3} | MADE_UP | changes)
    )
    group = LearnerGroup(settings, str(model), 1.0, 0, name, digest=digest)
    group.start()
    return group


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(a[n].shape == b[n].shape and np.array_equal(a[n], b[n]) for n in a)


@pytest.fixture(scope="module")
def two_ranks(ray_cluster, model):
    group = learner(model, "test-sync", ranks=2, update_seconds=40, sync={"timeout_seconds": 10})
    yield group
    group.close()


def test_every_worker_gets_every_weight_and_newcomers_are_greeted(ray_cluster, two_ranks):
    before = segments()
    first, second, third = receivers(ray_cluster, 3)
    two_ranks.send_weights([first, second], version=0)
    two_ranks.update(*make_batch(6, seed=31))
    two_ranks.send_weights([third, second], version=1)
    trained = two_ranks.parameters()
    answers = ray_cluster.get([worker.received.remote() for worker in (first, second, third)], timeout=30)
    got = dict(zip("123", answers, strict=True))
    assert same(got["2"][0], trained) and same(got["3"][0], trained)
    assert not same(got["1"][0], trained), "the update changed something"
    assert [got[name][1] for name in "123"] == ["0", "1", "1"]
    assert [got[name][2].count("init") for name in "123"] == [1, 1, 1]
    assert got["2"][2].count("update") > 8, "several buckets a sync"
    assert not left_behind(before), "no segment outlives its sync"


def test_an_engine_proves_what_zero_3_sent_it(ray_cluster, two_ranks, model):
    """Every rank holds half of each tensor; the digests are of the whole. What an engine lacks is named."""

    @ray_cluster.remote(num_cpus=0)
    class Worker:
        def __init__(self, path):
            from actors.engines.transformers_engine import TransformersEngine
            from tests.support.engines import engine_settings

            self.engine, self.change, self.kept = TransformersEngine(engine_settings("transformers"), path), "", {}

        def spoil(self, change):
            self.change = change

        def init_weight_transfer_engine(self, info):
            self.engine.init_weight_transfer_engine(info)

        def start_weight_update(self):
            self.engine.start_weight_update()

        def update_weights(self, info):
            from actors.transport.bucket import tensors_of

            arrived = dict(tensors_of(info, self.engine.read(info)))
            kept, self.kept = self.kept, self.kept | {name: tensor.clone() for name, tensor in arrived.items()}
            if HEAD in arrived and self.change == "bit":
                arrived[HEAD].view(torch.int32)[3, 5] ^= 1 << 30
            if HEAD in arrived and self.change == "half":
                arrived[HEAD][len(arrived[HEAD]) // 2 :] = 0
            if HEAD in arrived and self.change == "skipped":
                del arrived[HEAD]
            if HEAD in arrived and self.change == "stale":
                arrived[HEAD] = kept[HEAD]
            if self.change == "swapped":
                arrived |= {name: arrived[other] for name, other in ((K, V), (V, K)) if name in arrived}
            self.engine.weights.load(arrived.items())

        def finish_weight_update(self, version):
            self.engine.finish_weight_update(version)

        def receipt(self):
            return self.engine.receipt

    worker, before = Worker.remote(str(model)), {}
    for version, (change, faulty, named) in enumerate(
        [
            ("", None, ""),
            ("bit", HEAD, "was changed on the way: other values arrived"),
            ("half", HEAD, "was changed on the way: other values arrived"),
            ("skipped", HEAD, "did not arrive"),
            ("stale", HEAD, "is stale: the values of the sync before arrived"),
            ("swapped", K, f"is swapped: the values of {V} arrived"),
            ("", None, ""),
        ]
    ):
        ray_cluster.get(worker.spoil.remote(change), timeout=60)
        if change == "stale":
            two_ranks.update(*make_batch(6, seed=40))
        sent = two_ranks.send_weights([worker], version=version)
        receipt = ray_cluster.get(worker.receipt.remote(), timeout=30)
        faults = [(fault.tensor, fault.what) for fault in byte_faults(sent, before, receipt, version)]
        assert len(sent) == 25 and (faults == [] if faulty is None else (faulty, named) in faults), (change, faults)
        before = sent


def test_tokens_of_the_sent_version_are_on_policy(ray_cluster, two_ranks):
    worker = receivers(ray_cluster, 1)
    two_ranks.send_weights(worker, version=7)
    assert two_ranks.update(*make_batch(6, seed=32, version=7))["stale_share"] == 0.0
    assert two_ranks.update(*make_batch(6, seed=33, version=7))["stale_share"] == 1.0


LONG = pytest.mark.long


@pytest.mark.parametrize("stage", [pytest.param("start", marks=LONG), "update", pytest.param("finish", marks=LONG)])
def test_a_worker_that_dies_does_not_spoil_the_others(ray_cluster, two_ranks, stage):
    dying, living = receivers(ray_cluster, 2)
    ray_cluster.get(dying.misbehave.remote(die_at=stage), timeout=30)
    with pytest.raises(LearnerError, match="rollout worker 0 died; the others have the weights"):
        two_ranks.send_weights([dying, living], version=3)
    weights, version, _, _ = ray_cluster.get(living.received.remote(), timeout=30)
    assert same(weights, two_ranks.parameters()) and version == "3"
    (replacement,) = receivers(ray_cluster, 1)
    two_ranks.send_weights([replacement, living], version=3)
    assert same(ray_cluster.get(replacement.received.remote(), timeout=30)[0], two_ranks.parameters())


def test_a_transfer_that_fails_half_way_leaves_the_ranks_together(ray_cluster, two_ranks):
    """Rank 1 is in the middle of gathering when rank 0 gives up."""
    (worker,) = receivers(ray_cluster, 1)
    ray_cluster.get(worker.misbehave.remote(fail_at="update"), timeout=30)
    with pytest.raises(LearnerError, match="rollout worker 0, update_weights: ValueError: the second one is bad"):
        two_ranks.send_weights([worker], version=8)
    assert two_ranks.update(*make_batch(4, seed=36))["applied"] == 1
    ray_cluster.get(worker.misbehave.remote(), timeout=30)
    two_ranks.send_weights([worker], version=9)
    assert same(ray_cluster.get(worker.received.remote(), timeout=30)[0], two_ranks.parameters())


def test_a_worker_that_is_stuck_is_named_and_the_ranks_stay_together(ray_cluster, two_ranks):
    quick, stuck = receivers(ray_cluster, 2)
    ray_cluster.get(stuck.misbehave.remote(seconds=60), timeout=30)
    with pytest.raises(LearnerError, match=r"weight sync 4, rollout worker 1, .*learner.sync.timeout_seconds=10"):
        two_ranks.send_weights([quick, stuck], version=4)
    assert two_ranks.update(*make_batch(4, seed=34))["applied"] == 1
    two_ranks.send_weights([quick], version=5)
    assert same(ray_cluster.get(quick.received.remote(), timeout=30)[0], two_ranks.parameters())
    with pytest.raises(LearnerError, match="there are no rollout workers"):
        two_ranks.send_weights([], version=6)


@pytest.mark.long
def test_a_worker_is_sent_the_weights_through_the_object_store(ray_cluster, model):
    (worker,) = receivers(ray_cluster, 1)
    group = learner(model, "test-store", zero=1, sync={"transport": "object_store"})
    try:
        group.send_weights([worker], version=2)
        assert same(ray_cluster.get(worker.received.remote(), timeout=30)[0], group.parameters())
    finally:
        group.close()


@pytest.mark.long
def test_a_worker_is_sent_the_adapter_alone(ray_cluster, model):
    (worker,) = receivers(ray_cluster, 1)
    group = learner(model, "test-adapter", zero=3, lora={"rank": 2, "alpha": 8}, sync={"transport": "adapter"})
    try:
        group.update(*make_batch(6, seed=35))
        group.send_weights([worker], version=3)
        weights, _, _, config = ray_cluster.get(worker.received.remote(), timeout=30)
        assert same(weights, group.parameters())
        assert all(name.startswith("base_model.model.model.layers.") for name in weights)
        assert (config["r"], config["lora_alpha"], config["peft_type"]) == (2, 8.0, "LORA")
    finally:
        group.close()


def test_buckets_hold_what_fits_and_lay_it_out_apart():
    assert buckets([], 10) == []
    assert [(c.start, c.stop) for c in buckets([4, 6, 1, 30, 2, 2], 10)] == [(0, 2), (2, 3), (3, 4), (4, 6)]
    model = torch.nn.Module()
    model.a = torch.nn.Parameter(torch.arange(7.0))
    model.b = torch.nn.Parameter(torch.tensor(3.0, dtype=torch.bfloat16))
    model.c = torch.nn.Parameter(torch.randn(5, 3).t())  # not contiguous
    source = ModuleWeights(model, adapter=False, bucket_bytes=1 << 20)
    table = layout(source.metadata())
    assert table["offsets"] == [0, 64, 128] and table["nbytes"] == 192
    run = np.zeros(192, np.uint8)
    Bucket(table, [tensor for _, tensor in source]).write(run)
    assert run[:28].view(np.float32).tolist() == list(range(7))
    assert torch.from_numpy(run[64:66]).view(torch.bfloat16).item() == 3.0
    assert np.array_equal(run[128:188].view(np.float32).reshape(3, 5), model.c.detach().numpy())


def test_a_rank_without_a_gpu_sees_none_and_one_with_a_gpu_uses_it():
    plain, card = environment(LearnerSettings()), environment(LearnerSettings(gpus_per_rank=1))
    assert (plain["CUDA_VISIBLE_DEVICES"], plain["DS_ACCELERATOR"]) == ("", "cpu")
    assert "CUDA_VISIBLE_DEVICES" not in card and card["DS_ACCELERATOR"] == "cuda"
    assert os.sep in plain["PATH"]


def test_matrices_of_an_adapter_have_the_names_of_its_file():
    layer, words = torch.nn.Linear(2, 2, bias=False), torch.nn.Module()
    layer.lora_A = torch.nn.ModuleDict({"default": torch.nn.Linear(2, 1, bias=False)})
    words.lora_embedding_A = torch.nn.ParameterDict({"default": torch.nn.Parameter(torch.zeros(1, 2))})
    layer.weight.requires_grad_(False)
    made = ModuleWeights(torch.nn.ModuleDict({"layer": layer, "words": words}), adapter=True, bucket_bytes=1 << 20)
    assert [part.name for part in made.metadata()] == ["layer.lora_A.weight", "words.lora_embedding_A"]
