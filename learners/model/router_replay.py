"""Router replay: the trainer sends each token to the experts that the engine sent it to.

An engine and a trainer that round differently choose other experts where two are nearly even, and
then the log-prob jumps. With replay the choice is the engine's, and the gating weights are what the
trainer's own router makes of it, so that its gradient is whole (R3: Ma et al. 2025,
https://arxiv.org/abs/2510.11370). The router's own code runs, whatever it does with the logits:
only its torch.topk picks what was recorded.

A token without a record goes where the trainer's router sends it: the last of a game, and what a
game that was cut off would have shown next. So does every token of the reference, which no engine played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch.overrides import TorchFunctionMode

from actors.wire.routers import router_layers
from learners.batch.packing import Pack
from learners.batch.trajectories import Trajectory

PICKS = torch.topk, torch.Tensor.topk


class Given(TorchFunctionMode):
    """While it is on, torch.topk picks these indices, and its own where they are negative."""

    def __init__(self, indices: torch.Tensor):
        super().__init__()
        self.indices = indices

    def __torch_function__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if function not in PICKS:
            return found
        picked = torch.where(self.indices >= 0, self.indices, found.indices)
        return torch.return_types.topk((args[0].gather(-1, picked), picked))


class RouterReplay:
    def __init__(self, model: torch.nn.Module, device: torch.device):
        self.device = device
        self.experts: torch.Tensor | None = None  # int64 [tokens, layers, choices] of the pack that is computed now
        for router, layer in router_layers(model).items():
            router.forward = self._replaying(router.forward, layer)

    def _replaying(self, choose: Callable, layer: int) -> Callable:
        def forward(hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
            with nullcontext() if self.experts is None else Given(self.experts[:, layer]):
                return choose(hidden)

        return forward

    @contextmanager
    def of(self, pack: Pack) -> Iterator[None]:
        """For the pack's forward pass, and for its backward pass, which may compute layers again."""
        self.experts = torch.from_numpy(pack.experts).to(self.device, torch.int64)
        try:
            yield
        finally:
            self.experts = None


def replaying(replay: RouterReplay | None, pack: Pack) -> AbstractContextManager[None]:
    return nullcontext() if replay is None else replay.of(pack)


def check_recorded(trajectories: Sequence[Trajectory]) -> None:
    for each in trajectories:
        if each.sequence.experts is None:
            raise ValueError(
                f"episode {each.number}: seat {each.seat!r} has no record of its experts, which "
                "learner.router_replay=true replays; set it to false"
            )
