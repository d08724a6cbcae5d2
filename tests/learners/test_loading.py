"""Under ZeRO-3 no rank ever holds a whole model: not while it is loaded, and not as a reference."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Glm4MoeConfig

from learners.batch.packing import pack_sequences
from learners.batch.trajectories import collect
from learners.model.checkpoint_form import kept_buffers
from learners.model.load import adapter_config, load_model, pack_logprobs
from learners.settings import LearnerSettings
from learners.transport.source import ModuleWeights
from tests.support.learner_batches import make_batch

BATCH = make_batch(10, seed=21)


@pytest.fixture(scope="module")
def larger_model(tmp_path_factory):
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("larger")
    shape = {"hidden_size": 512, "intermediate_size": 1536, "num_attention_heads": 8, "num_hidden_layers": 12}
    LlamaForCausalLM(LlamaConfig(vocab_size=8000, **shape)).save_pretrained(folder, max_shard_size="50MB")
    return str(folder), 12 * (4 * 512**2 + 3 * 512 * 1536 + 2 * 512) + 2 * 8000 * 512 + 512


def test_a_rank_comes_to_hold_its_part_alone(learners, larger_model):
    """In bfloat16, from files in float32, so that nothing is used as it lies on disk."""
    folder, elements = larger_model
    learners.become(zero=3)
    whole, sharded = (learners.peak_of_loading(folder, sharded) for sharded in (False, True))
    assert [held for _, held in whole] == [elements] * 2
    assert all(peak >= 0.9 * 2 * elements for peak, _ in whole)
    assert all(abs(held - elements / 2) < 0.001 * elements for _, held in sharded)
    assert all(peak < 0.75 * 2 * elements for peak, _ in sharded), "its half, and one layer's tensor"


def test_an_adapter_names_its_base_as_the_hub_does(tiny_model, tmp_path):
    """And not the folder of one node's cache."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "models--someone--small-model" / "snapshots" / commit
    shutil.copytree(tiny_model, cached)
    for folder, expected in ((cached, ("someone/small-model", commit)), (tiny_model, (str(tiny_model), None))):
        said = adapter_config(load_model(str(folder), LearnerSettings(lora={"rank": 2}), 0))
        assert (said["base_model_name_or_path"], said["revision"]) == expected


@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3_text", "gpt_neox", "qwen3_moe"])
def test_in_shards_comes_the_same_model(learners, folder_of, family):
    """Also experts that a checkpoint holds apart, and what is computed in float32 beside weights in bfloat16."""
    learners.become(zero=3)
    assert learners.loaded_otherwise(str(folder_of(family, True))) == [[], []]


def test_a_reference_is_cut_up_and_says_the_same(learners):
    trajectories = collect(*BATCH)
    read, held = {}, {}
    for zero in (2, 3):
        learners.become(zero=zero, credit={"kl_penalty": 0.1}, minibatches=2)
        held[zero] = learners.frozen_elements()
        assert learners.call("update", *BATCH)["applied"] == 1
        read[zero] = [found["reference"] for found in learners.readings(trajectories)]
        now = [found["logprobs"] for found in learners.readings(trajectories)]
        assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(read[zero], now, strict=True)), "the policy has moved"
    assert held[3] < 0.1 * held[2]
    assert all(np.abs(a - b).max() < 1e-5 for a, b in zip(read[2], read[3], strict=True))


@pytest.mark.parametrize("family", ["opt", "gpt_neox", "llama", "mixtral"])
def test_training_computes_what_the_engines_play_also_where_the_config_has_noise(family, tmp_path):
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
    sizes |= {"ffn_dim": 64, "word_embed_proj_dim": 32} if family == "opt" else {"intermediate_size": 64}
    sizes |= {"num_key_value_heads": 2} if family == "mixtral" else {}
    config = AutoConfig.for_model(family, max_position_embeddings=64, **sizes)
    names = [
        name for name, value in config.to_dict().items() if re.search("drop|jitter", name) and isinstance(value, float)
    ]
    for name in names:
        setattr(config, name, 0.3)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = load_model(str(tmp_path), LearnerSettings(), 0)
    pack = pack_sequences([np.arange(5, 60)], [np.arange(5, 60) > 20])
    said = [pack_logprobs(model.train(mode), pack, 1.0, torch.device("cpu")) for mode in (True, False)]
    assert torch.equal(*said) and names


def test_what_nobody_trains_is_in_a_checkpoint_too(tmp_path):
    """The router's bias of a mixture of experts: a model without it is another one."""
    width = {"hidden_size": 32, "intermediate_size": 32, "moe_intermediate_size": 16, "vocab_size": 64, "head_dim": 8}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "first_k_dense_replace": 0}
    routes = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1}
    model = AutoModelForCausalLM.from_config(Glm4MoeConfig(**width, **heads, **routes, pad_token_id=0))
    (bias,) = (buffer for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias"))
    bias.copy_(torch.tensor([3.0, 0.0, -3.0, 1.0]))
    weights = dict(ModuleWeights(model, False, 2**28)) | kept_buffers(model)
    model.save_pretrained(tmp_path, state_dict=weights, save_original_format=False)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert again.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], tensor, rtol=0, atol=0)


def test_an_adapter_is_of_the_type_that_engines_hold_it_in(tiny_model):
    model = load_model(str(tiny_model), LearnerSettings(dtype="bfloat16", lora={"rank": 2}), 0)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
