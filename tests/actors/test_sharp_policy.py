"""A policy that has been trained for long says some words with log-probs of -50 and less. Engines that compute it
rightly differ from the trainer by more than 1e-4 there, and wrong ones by much more."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cluster.run.parity import LARGEST, gap_between
from tests.support.engines import KINDS, model_logprobs, model_of, send, shared_engine

SHARP = 32.0


def sharpened(path: str, shake: float = 0.0):
    model = model_of(path, seed=3, shake=shake)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(1.0 if "norm" in name else SHARP)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_is_told_from_another_policy(kind, tiny_model):
    path, rng = str(tiny_model), np.random.default_rng(5)
    model = sharpened(path, shake=0.05)
    sequences = rng.integers(3, model.config.vocab_size, (16, 60)).tolist()
    engine = shared_engine(kind, path)
    engine.forget()
    try:
        send(engine, model, 1)
        theirs = engine.score(sequences)
    finally:
        send(engine, model_of(path), 2)  # others play with it
    ours = [model_logprobs(model, ids) for ids in sequences]
    apart = max(float(np.abs(one - other).max()) for one, other in zip(ours, theirs, strict=True))
    assert min(float(each.min()) for each in ours) < -50 and (kind != "vllm" or apart > LARGEST)
    assert gap_between(ours, theirs).fault(False, None) == ""
    other = sharpened(path, shake=0.0501)
    assert gap_between([model_logprobs(other, ids) for ids in sequences], theirs).fault(False, None)
