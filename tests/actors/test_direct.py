"""The direct forward pass of a small Qwen3 is that of transformers, bit for bit, while weights change under it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from actors.engines.direct import direct
from actors.engines.slot_cache import SlotCache
from actors.engines.transformers_engine import TransformersEngine
from actors.settings import EngineSettings
from tests.support.engines import requests, run


@pytest.fixture(scope="module")
def engine(tiny_model):
    return TransformersEngine(EngineSettings(kind="transformers", max_context=128, max_sequences=8), str(tiny_model))


def played(engine: TransformersEngine, straight: bool) -> dict[str, tuple[list[int], bytes]]:
    """More requests than rows, prompts of unequal lengths, then the same again where rows are warm."""
    kept = engine.direct
    engine.direct = kept if straight else None
    engine.forget()
    words = engine.model.config.vocab_size
    wanted = [*requests(12, words), *requests(12, words, prompt=37, seed=1)]
    try:
        return {name: (each.token_ids.tolist(), each.logprobs.tobytes()) for name, each in run(engine, wanted).items()}
    finally:
        engine.direct = kept


def test_what_is_sampled_is_the_same_bit_for_bit_and_follows_the_weights(engine):
    before = played(engine, True)
    assert before == played(engine, False)
    with torch.inference_mode():
        for weight in engine.model.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(3)))
    after = played(engine, True)
    assert after == played(engine, False) != before
    assert np.isfinite(np.frombuffer(next(iter(after.values()))[1], np.float32)).all()


@pytest.mark.parametrize(
    "other",
    [{"num_key_value_heads": 2}, {"attention_bias": True}, {"hidden_act": "gelu"}, {"dtype": torch.bfloat16}],
    ids=lambda other: next(iter(other)),
)
def test_what_it_does_not_compute_is_left_to_transformers(other):
    shape = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "head_dim": 8,
    }
    dtype = other.pop("dtype", torch.float32)
    config = Qwen3Config(vocab_size=20, **({"num_key_value_heads": 4} | shape | other))
    assert direct(AutoModelForCausalLM.from_config(config, dtype=dtype), SlotCache(1, 2, 8)) is None
    plain = Qwen3Config(vocab_size=20, num_key_value_heads=4, **shape)
    assert direct(AutoModelForCausalLM.from_config(plain, dtype=torch.float32), SlotCache(1, 2, 8)) is not None
