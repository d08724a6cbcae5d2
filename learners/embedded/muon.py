"""Muon, as torch.optim.Muon defines it, in float32 and for all matrices of one shape at once.

torch's own rounds to bfloat16, which saves time on a GPU. A CPU without bfloat16 units takes much
longer for it, and for small matrices most of a step is the calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch

FIFTH, THIRD, FIRST = 2.0315, -4.7750, 3.4445  # of Keller Jordan's polynomial x (a + b x^2 + c x^4)
STEPS = 5
LEAST_NORM = 1e-7


class Muon(torch.optim.Optimizer):
    """Each step goes along the nearest orthogonal matrix to the Nesterov momentum, by
    lr sqrt(max(1, rows / columns))."""

    def __init__(self, weights: Iterable[torch.Tensor], lr: float, momentum: float):
        super().__init__(weights, {"lr": lr, "momentum": momentum})
        for group in self.param_groups:
            if any(weight.dim() != 2 for weight in group["params"]):
                raise ValueError("Muon steps along matrices alone")

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            alike = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    alike[weight.shape].append(weight)
            for (rows, columns), weights in alike.items():
                along = orthogonal(torch.stack([self._momentum(weight, group["momentum"]) for weight in weights]))
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                for weight, direction in zip(weights, along, strict=True):
                    weight.add_(direction, alpha=-rate)

    def _momentum(self, weight: torch.Tensor, decay: float) -> torch.Tensor:
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].lerp_(weight.grad, 1 - decay)
        return weight.grad.lerp(state["momentum"], decay)


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """[matrices, rows, columns]: with the same singular vectors, and singular values of about 1 (0.7 to 1.2)."""
    tall = matrices.shape[1] > matrices.shape[2]
    found = matrices.mT if tall else matrices
    found = found / torch.linalg.matrix_norm(found, keepdim=True).clamp(min=LEAST_NORM)
    for _ in range(STEPS):
        gram = found @ found.mT
        found = torch.baddbmm(found, torch.baddbmm(gram, gram, gram, beta=THIRD, alpha=FIFTH), found, beta=FIRST)
    return found.mT if tall else found
