"""Models of experts in the learner: routers whose load is kept even, and weights that leave whole under ZeRO-3."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from benchmarks.architectures import EXPERTS
from learners.batch.packing import pack_sequences
from learners.model.load import load_model, pack_logprobs
from learners.model.routers import RouterLoad
from learners.settings import LearnerSettings
from tests.support.engines import model_of
from tests.support.learner_batches import make_batch

CPU = torch.device("cpu")


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def pack_of(*sequences: np.ndarray):
    return pack_sequences(list(sequences), [np.arange(len(sequence)) > 0 for sequence in sequences])


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("family", EXPERTS)
def test_the_load_is_what_transformers_computes_and_so_is_the_gradient(folder_of, family, recompute):
    """Also in the pass after one whose layers were computed twice."""
    path = str(folder_of(family, False))
    ids = np.random.default_rng(5).integers(0, 64, 40)
    plain = model_of(path)
    uneven = plain(input_ids=torch.from_numpy(ids)[None], output_router_logits=True).aux_loss
    uneven.backward()
    model = load_model(path, LearnerSettings(gradient_checkpointing=recompute), 0).train()
    load = RouterLoad(model, 0.25, CPU)
    for _ in range(2):
        model.zero_grad()
        load.listen()
        pack_logprobs(model, pack_of(ids), 1.0, CPU)
        loss = load.loss(weight=0.5)
        loss.backward()
        assert not load.logits, "layers that were computed again said it again"
    assert loss.item() == pytest.approx(0.25 * 0.5 * uneven.item(), rel=1e-6) and uneven.item() > 2
    ours, theirs = gradients(model), gradients(plain)
    assert ours.keys() == theirs.keys() and any("gate" in name for name in ours)
    largest = max(float(gradient.abs().max()) for gradient in theirs.values())
    assert all(torch.allclose(ours[n], 0.125 * theirs[n], atol=1e-6 * largest) for n in theirs)


@pytest.mark.parametrize("family", EXPERTS)
def test_recomputed_activations_change_nothing(folder_of, family):
    found = []
    sequences = [np.random.default_rng(5).integers(0, 64, length) for length in (32, 1, 13, 48)]
    for recompute in (False, True):
        model = load_model(str(folder_of(family, False)), LearnerSettings(gradient_checkpointing=recompute), 0).train()
        pack_logprobs(model, pack_of(*sequences), 1.0, CPU).sum().backward()
        found.append(gradients(model))
    largest = max(float(gradient.abs().max()) for gradient in found[0].values())
    assert all(torch.allclose(found[0][n], found[1][n], atol=1e-6 * largest) for n in found[0])


def test_a_model_without_experts_has_no_load(tiny_model):
    model = load_model(str(tiny_model), LearnerSettings(), 0)
    with pytest.raises(ValueError, match=r"router_aux=0\.1, but the model has no routers"):
        RouterLoad(model, 0.1, CPU)


@pytest.mark.long
def test_the_routers_learn_to_share_under_zero_3_and_everything_is_exported(learners, folder_of, tmp_path):
    """On two ranks of unlike work. What is exported are the weights held, as the checkpoint names them."""
    model = folder_of("qwen3_moe", False)
    loads = {}
    for coefficient in (0.0, 5.0):
        changes = {"loss": {"router_aux": coefficient}} if coefficient else {}
        learners.become(model=str(model), zero=3, learning_rate=1e-2, credit={"baseline": "batch"}, **changes)
        for step in range(6):
            figures = learners.call("update", *make_batch(5, seed=7, version=step))
            loads[coefficient, step] = figures.get("router_load")
    assert loads[0.0, 5] is None and 1 <= loads[5.0, 5] < 1 + (loads[5.0, 0] - 1) / 2
    learners.each("export", str(tmp_path))
    held, written = learners.each("parameters")[0], load_file(tmp_path / "model.safetensors")
    assert held.keys() == written.keys() == load_file(model / "model.safetensors").keys()
    assert all(np.array_equal(held[name], written[name]) for name in held)
    sequence = list(range(3, 40))
    whole = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    (expected,) = learners.each("score", [sequence])[0]
    with torch.no_grad():
        logp = whole(input_ids=torch.tensor([sequence])).logits[0, :-1].log_softmax(-1)
    assert np.abs(expected - logp.gather(1, torch.tensor(sequence[1:])[:, None])[:, 0].numpy()).max() < 1e-4
