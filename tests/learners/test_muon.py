"""Muon against its definition, by singular values in float64, and against torch's own in bfloat16."""

from __future__ import annotations

import pytest
import torch

from learners.embedded.muon import FIFTH, FIRST, LEAST_NORM, STEPS, THIRD, Muon, orthogonal


@pytest.mark.parametrize("rows, columns", [(64, 64), (64, 256), (256, 64), (8, 1)])
def test_singular_vectors_stay_and_singular_values_follow_the_polynomial(rows, columns):
    torch.manual_seed(0)
    matrices = torch.randn(3, rows, columns) * torch.tensor([1e-3, 1.0, 1e3])[:, None, None]
    left, values, right = torch.linalg.svd(matrices.double(), full_matrices=False)
    values = values / values.norm(dim=1, keepdim=True)
    for _ in range(STEPS):
        values = FIRST * values + THIRD * values**3 + FIFTH * values**5
    torch.testing.assert_close(orthogonal(matrices).double(), (left * values[:, None]) @ right, rtol=0, atol=2e-5)
    assert orthogonal(torch.zeros(1, rows, columns)).count_nonzero() == 0 < LEAST_NORM


def test_steps_are_those_of_torch_but_for_rounding():
    """Over 20 steps with a rate that changes, of several shapes, one of which now and then has no gradient."""
    torch.manual_seed(1)
    shapes = [(32, 16), (16, 32), (32, 16), (16, 16)]
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    first = [weight.detach().clone() for weight in ours]
    optimizers = [
        Muon(ours, lr=0.1, momentum=0.95),
        torch.optim.Muon(theirs, lr=0.1, momentum=0.95, weight_decay=0.0),
    ]
    schedules = [torch.optim.lr_scheduler.LambdaLR(each, lambda step: 1 / (step + 1)) for each in optimizers]
    for step in range(20):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            gradient = torch.randn(one.shape)
            one.grad, other.grad = (None, None) if number == 3 and step % 4 == 1 else (gradient, gradient.clone())
        for each in (*optimizers, *schedules):
            each.step()
    for one, other, begun in zip(ours, theirs, first, strict=True):
        moved = (other - begun).norm()
        assert moved > 0.5 and (one - other).norm() < 0.02 * moved


def test_what_is_no_matrix_is_refused():
    with pytest.raises(ValueError, match="matrices alone"):
        Muon([torch.nn.Parameter(torch.zeros(3))], lr=0.1, momentum=0.9)
