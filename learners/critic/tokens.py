"""The critic: a value for every token, read off the policy's hidden states.

An MLP (width - 1024 - 512 - 1, ReLU) on the last hidden state, where the log-prob of the
token is read too: before the token is known. It looks at the states and does not change them:
no gradient reaches the policy, so a bad critic costs variance and never the policy itself. Its
last layer starts at zero, so before it has learned anything every value is 0 and advantages
are returns.

Every rank holds the whole critic and the states of its own share of the batch; gradients are
summed over ranks, so all of them hold the same weights.

    read    before credit: states -> values of tokens, and of what follows a cut-off game
    learn   after credit: the same states, the targets that credit made of the values
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from learners.batch.packing import by_trajectory
from learners.batch.trajectories import Trajectory
from learners.credit.critics import TokenCriticSettings

LAYERS = (1024, 512)


@dataclass(slots=True)
class States:
    """What one micro-batch was read at: trained tokens first, then the ends of games that
    were cut off, then of utterances, if they were asked for."""

    hidden: torch.Tensor  # [places, width]
    tokens: int


@contextmanager
def head_inputs(model: nn.Module) -> Iterator[list[torch.Tensor]]:
    """Catches what goes into the output head: the last hidden states, at the places alone
    whose logits are asked for."""
    caught: list[torch.Tensor] = []
    handle = model.get_output_embeddings().register_forward_pre_hook(
        lambda module, inputs: caught.append(inputs[0].detach())
    )
    try:
        yield caught
    finally:
        handle.remove()


def turn_states(states: States, trajectories: list[Trajectory]) -> list[dict[str, np.ndarray]]:
    """Of each game of a micro-batch: where the observation of each turn ends; zeros where nothing was said."""
    tokens = np.concatenate([trajectory.turn_tokens for trajectory in trajectories])
    spoken, first = tokens > 0, np.cumsum(tokens) - tokens
    found = np.zeros((len(tokens), states.hidden.shape[1]), np.float32)
    found[spoken] = states.hidden[first[spoken]].float().cpu().numpy()
    ends = np.cumsum([len(trajectory.turn_tokens) for trajectory in trajectories])
    return [{"states": own} for own in np.split(found, ends[:-1])]


def value_net(width: int) -> nn.Sequential:
    """Says 0 until it has learned something."""
    first, second = LAYERS
    net = nn.Sequential(nn.Linear(width, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, 1))
    nn.init.zeros_(net[-1].weight)
    nn.init.zeros_(net[-1].bias)
    return net


class Placed(NamedTuple):
    """Of a micro-batch the tokens whose targets count: of all of them, or one of each turn."""

    hidden: torch.Tensor  # [tokens, width], where the states are
    targets: torch.Tensor  # on the critic's device


class Critic:
    def __init__(self, settings: TokenCriticSettings, width: int, device: torch.device, seed: int):
        self.settings, self.width, self.device = settings, width, device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.net = value_net(width).to(device)
        self.optimiser = torch.optim.AdamW(self.net.parameters(), lr=settings.learning_rate, weight_decay=0.0)

    def read(self, states: States) -> np.ndarray:
        """float64 [places]."""
        with torch.no_grad():
            return self.net(states.hidden.to(self.device).float()).squeeze(-1).double().cpu().numpy()

    def of_games(self, states: States, trajectories: list[Trajectory]) -> list[dict[str, np.ndarray]]:
        """What credit is to know of each game of a micro-batch."""
        values = self.read(states)
        ends = iter(values[states.tokens :])
        return [
            {"values": own, "bootstrap": np.array([0.0 if trajectory.terminated else next(ends)])}
            for own, trajectory in zip(by_trajectory(values[: states.tokens], trajectories), trajectories, strict=True)
        ]

    def learn(
        self,
        batch: list[States],
        targets: list[np.ndarray],
        valued: list[np.ndarray],
        rate: float | None = None,
    ) -> dict[str, float]:
        """`epochs` steps of mean squared error over the whole batch: one entry of each list for
        each micro-batch of this rank, and as many of them on every rank. `rate` is this update's
        step size."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate if rate is None else rate
        placed = [
            Placed(
                states.hidden[: states.tokens][torch.from_numpy(use).to(states.hidden.device)],
                torch.from_numpy(target[use]).to(self.device).float(),
            )
            for states, target, use in zip(batch, targets, valued, strict=True)
        ]
        with torch.no_grad():
            before = [self._values(each) for each in placed]
        count = torch.tensor(float(sum(len(each.targets) for each in placed)), device=self.device, dtype=torch.float64)
        dist.all_reduce(count)
        losses = []
        for _ in range(self.settings.epochs):
            self.optimiser.zero_grad(set_to_none=False)
            total = torch.zeros((), dtype=torch.float64, device=self.device)
            for each, start in zip(placed, before, strict=True):
                values = self._values(each)
                errors = value_losses(values, each.targets, start, self.settings.value_clip)
                loss = errors.sum() / count
                loss.backward()
                total += loss.detach().double()
            for parameter in self.net.parameters():
                if parameter.grad is None:  # a rank without a trained token adds nothing, but has to take part
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)
            dist.all_reduce(total)
            nn.utils.clip_grad_norm_(self.net.parameters(), self.settings.gradient_clip)
            self.optimiser.step()
            losses.append(float(total))
        return {"critic_loss": losses[0], "critic_loss_after": losses[-1]}

    def _values(self, placed: Placed) -> torch.Tensor:
        return self.net(placed.hidden.to(self.device).float()).squeeze(-1)

    def state(self) -> dict[str, Any]:
        return {"net": self.net.state_dict(), "optimiser": self.optimiser.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])


def value_losses(values: torch.Tensor, targets: torch.Tensor, before: torch.Tensor, clip: float | None) -> torch.Tensor:
    """Squared errors. With `clip` the larger of the error and that of the value moved at most so
    far from `before`, its value at the start of the update: a value that has moved further
    towards its target gains nothing more by it (Schulman et al. 2017)."""
    errors = (values - targets).square()
    if clip is None:
        return errors
    held = before + (values - before).clamp(-clip, clip)
    return torch.maximum(errors, (held - targets).square())


def explained(values: np.ndarray, targets: np.ndarray) -> float:
    """Share of the targets' variance that the values explained before they were trained on them."""
    spread = float(targets.var())
    return 1.0 - float((targets - values).var()) / spread if spread > 0 else 0.0
