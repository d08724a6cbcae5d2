"""Weights on the wire, as the workers read them; LoRA adapters against PEFT."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from actors import own_folder
from actors.transport import adapter
from actors.transport.bucket import BadBucket, tensors_of
from actors.transport.object_store import read_object_store
from actors.transport.shared_memory import read_shared_memory
from learners.transport.segment import Segment
from tests.support.engines import (
    KINDS,
    bucket_of,
    drain,
    largest_gap,
    model_logprobs,
    model_of,
    requests,
    shared_engine,
)

WEIGHTS = [
    ("a", torch.randn(7, 3)),
    ("b", torch.randn(5).to(torch.bfloat16)),
    ("c", torch.randn(2, 2, 3).to(torch.float16)),
    ("d", torch.tensor([[1.5]])),  # begins at a byte that is no multiple of four
]


@pytest.fixture
def segment():
    info, payload = bucket_of(WEIGHTS)
    made = Segment(len(payload))
    made.bytes[:] = payload
    yield {**info, "segment": made.name, "bytes": made.bytes}
    made.close()


def test_every_dtype_and_alignment_arrives_bit_for_bit():
    info, payload = bucket_of(WEIGHTS)
    assert any(offset % 4 for offset in info["offsets"])
    for (name, sent), (arrived_name, arrived) in zip(WEIGHTS, tensors_of(info, payload), strict=True):
        assert (name, sent.dtype, sent.shape) == (arrived_name, arrived.dtype, arrived.shape)
        assert torch.equal(sent, arrived)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nbytes": 10}, "truncated: 124 bytes arrived, 10 were announced"),
        ({"dtype_names": ["float32", "int3", "float16", "float32"]}, "weight b: unknown dtype 'int3'"),
        ({"shapes": [[7, 3], [5], [2, 2, 3], [1, 2]]}, "weight d: .* needs 8 bytes, but the bucket ends at 124"),
        ({"offsets": [-4, 84, 94, 118]}, "weight a"),
        ({"names": ["a"]}, "ragged: names has 1, dtype_names has 4"),
    ],
)
def test_a_bucket_that_does_not_add_up_is_refused_by_name(changes, message):
    info, payload = bucket_of(WEIGHTS)
    payload = np.concatenate([payload, np.zeros(124 - len(payload), np.uint8)])
    with pytest.raises(BadBucket, match=message):
        tensors_of({**info, "nbytes": 124, **changes}, payload)
    with pytest.raises(BadBucket, match="lacks shapes"):
        tensors_of({key: value for key, value in info.items() if key != "shapes"}, payload)


def test_a_reader_neither_keeps_nor_changes_the_trainers_segment(segment):
    """A reader in its own process that exits: the segment stays, and nothing complains."""
    info = {key: segment[key] for key in ("segment", "nbytes")}
    code = f"from actors.transport.shared_memory import read_shared_memory as r; print(int(r({info!r}).sum()))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and ended.stderr == ""
    mine = read_shared_memory(segment)
    assert int(mine.sum()) == int(ended.stdout)
    segment["bytes"][0] ^= 0xFF
    assert mine[0] != segment["bytes"][0]  # a copy


def test_a_segment_that_is_gone_or_too_short_is_named(segment):
    with pytest.raises(BadBucket, match="'gone' does not exist"):
        read_shared_memory({**segment, "segment": "gone"})
    with pytest.raises(BadBucket, match="'999999999/3/1' does not exist"):
        read_shared_memory({**segment, "segment": "999999999/3/1"})
    with pytest.raises(BadBucket, match="truncated"):
        read_shared_memory({**segment, "nbytes": 10**6})


def test_a_segment_of_another_user_is_named(segment, monkeypatch):
    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)  # the tests' own user may open everything
    with pytest.raises(BadBucket, match="may not be opened: .* learner.sync.transport=object_store"):
        read_shared_memory(segment)


def test_who_asks_late_does_not_get_the_bytes_of_the_next_segment():
    early = Segment(8)
    early.close()
    late = Segment(8)
    assert early.name.rsplit("/", 1)[0] == late.name.rsplit("/", 1)[0], "the same descriptor"
    assert read_shared_memory({"segment": late.name, "nbytes": 8}).tolist() == [0] * 8
    with pytest.raises(BadBucket, match="does not exist on this node any more"):
        read_shared_memory({"segment": early.name, "nbytes": 8})
    late.close()
    with pytest.raises(BadBucket, match="does not exist"):
        read_shared_memory({"segment": late.name, "nbytes": 8})


def test_a_segment_goes_with_its_process():
    before = set(Path("/dev/shm").iterdir())
    code = (
        "import os, signal; from learners.transport.segment import Segment; s = Segment(8); "
        "print(s.name, flush=True); os.kill(0, signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, start_new_session=True
    )
    assert ended.returncode == -9
    with pytest.raises(BadBucket, match="does not exist"):
        read_shared_memory({"segment": ended.stdout.strip(), "nbytes": 8})
    assert not [each for each in set(Path("/dev/shm").iterdir()) - before if each.name.startswith(("psm_", "parley"))]


def test_the_object_store_brings_a_private_copy(ray_cluster):
    info, payload = bucket_of(WEIGHTS)
    arrived = read_object_store({**info, "reference": [ray_cluster.put(payload)]})
    assert arrived.tobytes() == payload.tobytes() and arrived.flags.writeable
    with pytest.raises(BadBucket, match="is a str"):
        read_object_store({"reference": [ray_cluster.put("weights")]})


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_update_is_what_peft_computes(kind, tiny_model, ray_cluster):
    """Before the first update the engine is the base model; after each, requests in flight go
    on with the new adapter, never with the old one."""
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

    path = str(tiny_model)
    engine = shared_engine(kind, path, lora_rank=4)
    targets = {1: ["q_proj", "v_proj", "down_proj"], 2: "all-linear"}
    models = {0: model_of(path)}
    wanted = requests(40, models[0].config.vocab_size, prompt=40, tokens=24)
    for request in wanted:
        engine.submit(request)
    sequence = list(wanted[0].prompt_ids)
    assert np.abs(engine.score([sequence])[0] - model_logprobs(models[0], sequence)).max() < 1e-4
    done = {}
    for version in (1, 2):
        done |= {completion.id: completion for _ in range(6) for completion in engine.step()}
        torch.manual_seed(version)
        config = LoraConfig(r=4, target_modules=targets[version], task_type="CAUSAL_LM", lora_alpha=16)
        models[version] = get_peft_model(model_of(path), config)
        with torch.no_grad():
            for name, weight in models[version].named_parameters():
                if "lora_" in name:
                    weight.normal_(std=0.3)
        info, payload = bucket_of(get_peft_model_state_dict(models[version]).items())
        info["reference"] = [ray_cluster.put(payload)]
        info["peft_config"] = models[version].peft_config["default"].to_dict()
        engine.start_weight_update()
        engine.update_weights(info)
        engine.finish_weight_update(str(version))
        assert np.abs(engine.score([sequence])[0] - model_logprobs(models[version], sequence)).max() < 1e-4
        before = model_logprobs(models[version - 1], sequence)
        assert np.abs(before - model_logprobs(models[version], sequence)).max() > 0.1
    done |= drain(engine)
    seen = set()
    for request in wanted:
        for version, model in models.items():
            made = done[request.id].versions == version
            seen.add((version, bool(made.any())))
            assert largest_gap(model, request, done[request.id], made) < 1e-4
    assert {(0, True), (1, True), (2, True)} <= seen

    engine.start_weight_update()
    with pytest.raises(BadBucket, match="rank 9"):
        engine.update_weights({**info, "peft_config": {**info["peft_config"], "r": 9}})
    engine.start_weight_update()
    with pytest.raises(BadBucket, match="no adapter weights"):
        engine.finish_weight_update("3")
    folder = engine.adapter.folder
    assert json.loads((folder / "adapter_config.json").read_text())["r"] == 4
    engine.adapter.close()  # not the engine: that would take vLLM's process-wide state from other tests
    assert not folder.exists()


def test_what_a_library_made_for_a_process_goes_with_its_folder_but_never_by_another_user_s_word(tmp_path, monkeypatch):
    closed, killed, foreign = (tmp_path / name for name in ("closed", "killed", "foreign"))
    for file in (closed, killed, foreign):
        file.touch()
    own = own_folder.OwnFolder("parley-test-", tmp_path)
    own.goes_with([closed, tmp_path / "removed already"])
    own.close()
    assert not closed.exists() and not own.path.exists()

    left = tmp_path / "parley-test-left"
    left.mkdir()
    for owner, file in ((os.getuid() + 1, foreign), (os.getuid(), killed)):
        (left / own_folder.ELSEWHERE).write_text(str(file))
        monkeypatch.setattr(own_folder.os, "getuid", lambda owner=owner: owner)
        own_folder.sweep(tmp_path, "parley-test-")
    assert foreign.exists() and not killed.exists() and not left.exists()


def test_a_killed_engine_s_folder_is_swept_and_a_living_one_s_is_not(tmp_path):
    hold = "import sys, time; from pathlib import Path; from actors.own_folder import OwnFolder; "
    hold += "own = OwnFolder(sys.argv[1], Path(sys.argv[2])); print(own.path, flush=True); time.sleep(600)"
    command = [sys.executable, "-c", hold, adapter.PREFIX, str(tmp_path)]
    engines = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        killed, living = (Path(engine.stdout.readline().decode().strip()) for engine in engines)
        assert killed.is_dir() and living.is_dir()
        engines[0].kill()
        engines[0].wait(30)
        own_folder.sweep(tmp_path, adapter.PREFIX)
        assert not killed.exists()
        assert living.is_dir(), "in use"
    finally:
        for engine in engines:
            engine.kill()
            engine.wait(30)


def test_an_engine_of_one_process_meets_itself_in_a_file_that_goes_with_it(tiny_model):
    shared_engine("vllm", str(tiny_model))
    store = torch.distributed.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    assert Path(store.path).resolve().name == "memfd:vllm_dist (deleted)"


def test_an_adapter_that_could_not_be_written_is_written_by_the_next_update(tiny_model, monkeypatch):
    def full(*arguments) -> None:
        raise OSError(28, "No space left on device")

    received = adapter.AdapterReceiver(4, str(tiny_model))
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(adapter, "save_file", full)
        received.finish()
    received.finish()
    assert sorted(each.name for each in received.folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    received.close()
