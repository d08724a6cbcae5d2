"""The arithmetic of a plan against what torch really keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from cluster.plan import memory
from cluster.plan.shape import shape_of
from cluster.recipe.reading import load_recipe
from learners.model import attention
from learners.settings import ALL_LINEAR
from tests.cluster.test_plan import recipe

MODELS = {"qwen3": (Qwen3Config, Qwen3ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}
SHAPES = {  # hidden, layers, heads, key heads, inner width
    "narrow": (64, 4, 4, 2, 128),
    "wide": (256, 3, 4, 4, 512),
    "deep": (64, 12, 4, 1, 256),
    "broad inside": (128, 4, 2, 2, 768),
    "many heads": (96, 4, 8, 2, 256),
}
TOKENS = 256


def kept(model: torch.nn.Module) -> int:
    """Bytes that a forward pass leaves for the backward pass, weights left out."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    held: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            held[place] = tensor
        return tensor

    layout = attention.layout(np.array([TOKENS]), torch.device("cpu"))
    ids = torch.arange(TOKENS)[None]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=ids, position_ids=ids, use_cache=False, packed=layout, logits_to_keep=torch.tensor([0]))
    return sum(tensor.untyped_storage().nbytes() for tensor in held.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("size", SHAPES)
def test_activations_are_what_a_forward_pass_keeps(size, kind, dtype):
    made, config = random_model(size, kind, dtype)
    assert planned(config, dtype) == pytest.approx(kept(made), rel=0.15)


@pytest.mark.parametrize(
    "targets", [["q_proj", "k_proj", "v_proj", "o_proj"], ["down_proj"], ["up_proj", "q_proj"], [ALL_LINEAR]]
)
@pytest.mark.parametrize("size", SHAPES)
def test_an_adapter_leaves_less_for_the_backward_pass(size, targets):
    from peft import LoraConfig, get_peft_model

    made, config = random_model(size, "qwen3", "float32", layers=12)  # nothing before the first adapter keeps anything
    all_trained = kept(made)
    adapter = LoraConfig(r=2, target_modules=ALL_LINEAR if ALL_LINEAR in targets else targets)
    frozen = get_peft_model(made, adapter)
    assert shape_of(config.to_dict()).adapter_parameters(2, targets) == frozen.num_parameters(only_trainable=True)
    found = planned(config, "float32", f"learner.lora.targets={json.dumps(targets)}", "learner.lora.rank=2")
    assert found == pytest.approx(kept(frozen), rel=0.15)
    assert found < (1 if ALL_LINEAR in targets else 0.9) * all_trained


def planned(config, dtype, *more):
    overrides = [f"learner.tokens_per_micro_batch={TOKENS}", f"rollout.engine.max_context={TOKENS}", *more]
    settings = load_recipe(None, [*overrides, "rollout.max_utterance_tokens=16"]).learner
    return memory.activations(shape_of(config.to_dict()), settings, memory.BYTES[dtype])


def random_model(size, kind, dtype, **more):
    hidden, layers, heads, keys, inner = SHAPES[size]
    make, model = MODELS[kind]
    config = make(
        hidden_size=hidden,
        num_hidden_layers=more.get("layers", layers),
        num_attention_heads=heads,
        num_key_value_heads=keys,
        head_dim=32,
        intermediate_size=inner,
        vocab_size=TOKENS,
        tie_word_embeddings=False,
    )
    return model._from_config(config, attn_implementation=attention.NAME).to(getattr(torch, dtype)).train(), config


def test_a_guard_keeps_a_copy_of_what_is_stepped():
    shape = shape_of(MODELS["qwen3"][0](vocab_size=1000, hidden_size=64, num_hidden_layers=2).to_dict())
    settings = ("learner.ranks=2", "learner.zero=2", "learner.dtype=float32", "rollout.engine.dtype=float32")
    plain, guarded = (
        memory.learner(load_recipe(None, [*settings, *more]), shape).optimiser
        for more in ((), ("learner.loss.kind=ppo", "learner.loss.kl_guard=0.02"))
    )
    assert plain == 12 * shape.parameters / 2 and guarded == 16 * shape.parameters / 2


# Bytes of a weight: how gradients are summed, and what DeepSpeed copies of them for a step
STEPS = {
    ("float32", 0): (4, 4),
    ("float32", 1): (4, 4),
    ("float32", 2): (4, 4),
    ("float32", 3): (4, 4),
    ("bfloat16", 0): (2, 4),
    ("bfloat16", 1): (6, 2),
    ("bfloat16", 2): (4, None),  # the largest tensor, in 8 bytes
    ("bfloat16", 3): (4, 4),
}


@pytest.mark.parametrize("dtype, zero", STEPS)
def test_a_step_copies_gradients_when_activations_are_gone(dtype, zero):
    """So it counts where they are few, and not beside them where they are many."""
    shape = shape_of(MODELS["qwen3"][0](vocab_size=20_000, hidden_size=2048, num_hidden_layers=2).to_dict())
    summed, copied = STEPS[dtype, zero]

    def need(tokens):
        told = [f"learner.dtype={dtype}", f"learner.zero={zero}", f"learner.tokens_per_micro_batch={tokens}"]
        told += ["rollout.engine.max_context=64", "rollout.max_utterance_tokens=16"]
        return memory.learner(load_recipe(None, told), shape)

    few, many = need(64), need(65_536)
    at_step = few.gradients + few.activations + few.logits
    copies = 8 * shape.largest_tensor if copied is None else copied * shape.parameters
    assert many.gradients == summed * shape.parameters
    assert at_step == pytest.approx(summed * shape.parameters + copies)


@pytest.mark.parametrize(("parallel", "parts"), [(1, 1), (2, 2), (4, 4), (8, 4)])
def test_every_card_of_an_engine_holds_a_key_head(parallel, parts):
    """Of four key heads eight cards hold one each."""
    shape = replace(recipe("qwen3_lora")[1], key_heads=4)
    config, alone = (
        load_recipe(None, ["model.path=x", "rollout.engine.dtype=bfloat16", f"rollout.engine.tensor_parallel={each}"])
        for each in (parallel, 1)
    )
    assert memory.cache_of(config, shape, 3) == memory.cache_of(alone, shape, 3) / parts
