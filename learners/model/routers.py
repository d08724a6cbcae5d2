"""Experts: the routers' load, and the loss that keeps it even.

    router_aux * experts * sum over experts of (share of tokens sent there) * (mean probability)

(Fedus et al. 2021, as transformers computes it: choices of all layers together, `top_k` when
even.) It is a mean over tokens, not a sum, so each micro-batch counts by its share of the step's
tokens: how the batch was cut up moves it a little, as every such loss, and never its weight.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from transformers import PretrainedConfig
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from actors.wire.routers import router_modules


def choices_per_token(config: PretrainedConfig) -> int:
    return config.get_text_config().num_experts_per_tok


class RouterLoad:
    """Hears what the routers say in a forward pass, from `listen` to `loss`. A layer that is computed again
    in the backward pass says it again, and nobody keeps that."""

    def __init__(self, model: torch.nn.Module, coefficient: float, device: torch.device):
        routers = router_modules(model)
        if not routers:
            raise ValueError(f"learner.loss.router_aux={coefficient:g}, but the model has no routers that can be heard")
        self.coefficient, self.top_k = coefficient, choices_per_token(model.config)
        self.logits: dict[torch.nn.Module, torch.Tensor] = {}
        self.listening = False
        self.sums = torch.zeros(2, dtype=torch.float64, device=device)  # of loss * weight, of weights
        for router, place in routers.items():
            router.register_forward_hook(self._hearing(place))

    def _hearing(self, place: int) -> Callable:
        def hear(router: torch.nn.Module, _, output: tuple[torch.Tensor, ...]) -> None:
            if self.listening:
                self.logits[router] = output[place]

        return hear

    def listen(self) -> None:
        self.listening = True

    def loss(self, weight: float) -> torch.Tensor:
        """Of the forward pass that was heard, which has `weight` of the step's tokens."""
        self.listening = False
        heard = tuple(logits.reshape(-1, logits.shape[-1]) for logits in self.logits.values())
        self.logits.clear()
        uneven = load_balancing_loss_func(heard, heard[0].shape[-1], self.top_k)
        self.sums += torch.stack([uneven.detach().double() * weight, self.sums.new_tensor(weight)])
        return self.coefficient * weight * uneven

    def over_ranks(self) -> float:
        """The mean over tokens since the last call: 1 when all experts are used alike."""
        sums = self.sums.clone()
        dist.all_reduce(sums)
        self.sums.zero_()
        return float(sums[0] / sums[1].clamp(min=1e-12)) / self.top_k
