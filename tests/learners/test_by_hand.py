"""Norms and rotations whose gradients are written by hand, against the model as transformers writes it."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from learners.model.by_hand import Norm, Rotation, take_over
from learners.model.load import load_model
from learners.settings import LearnerSettings


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.randint(0, 64, (3, 50), generator=torch.Generator().manual_seed(0))


def uneven(model: torch.nn.Module) -> torch.nn.Module:
    """With norms that are no longer all ones, as training leaves them."""
    generator = torch.Generator().manual_seed(1)
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.data = 1 + torch.randn(weight.shape, generator=generator) / 4
    return model


def gradients(model: torch.nn.Module, logits: torch.Tensor) -> dict[str, torch.Tensor]:
    weight = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2))
    (logits * weight).sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def test_values_are_the_same_bits_and_gradients_the_same_but_for_rounding(tiny_model, ids):
    plain, own = (uneven(AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)) for _ in range(2))
    take_over(own)
    expected, found = plain(ids).logits, own(ids).logits
    kinds = {type(node).__name__ for node in nodes(found.grad_fn)}
    assert {"NormBackward", "RotationBackward"} <= kinds and "PowBackward0" not in kinds
    assert not {"NormBackward", "RotationBackward"} & {type(node).__name__ for node in nodes(expected.grad_fn)}
    assert torch.equal(expected, found)
    theirs, ours = gradients(plain, expected), gradients(own, found)
    for name, gradient in theirs.items():
        assert torch.allclose(ours[name], gradient, rtol=0, atol=1e-5 * float(gradient.abs().max())), name


def nodes(last) -> set:
    """Of the graph that a backward pass goes through."""
    seen, waiting = set(), [last]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [before for before, _ in node.next_functions]
    return seen


def test_gradients_against_differences():
    generator = torch.Generator().manual_seed(3)
    rows, weight = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((2, 3, 8), (8,)))
    rows, weight = rows.requires_grad_(), weight.requires_grad_()
    assert torch.autograd.gradcheck(lambda *of: Norm.apply(*of, 1e-3), (rows, weight))
    angles = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64).repeat(1, 1, 2)
    assert torch.autograd.gradcheck(lambda of: Rotation.apply(of, angles.cos(), angles.sin()), (rows,))


@pytest.mark.parametrize("dtype, by_hand", [("float32", True), ("bfloat16", False)])
def test_half_precision_is_left_to_transformers(tiny_model, ids, dtype, by_hand):
    """There a norm rounds on its way."""
    model = load_model(str(tiny_model), LearnerSettings(dtype=dtype, attention="eager"), 0)
    assert ("forward" in vars(model.model.norm)) == by_hand
