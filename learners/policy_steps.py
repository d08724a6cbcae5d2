"""The policy's part of an update: the optimiser steps on one batch.

    for each share of the batch     epochs x minibatches, learners/minibatches.py
        for each micro-batch        forward, loss, backward
        step                        unless it is not finite, or the policy has gone far enough

All ranks take the same decisions, from sums over all of them. Two things leave a step out:
a gradient that is not finite, which is counted and touches neither weights nor moments; and
the KL guard, once the weights are further from those of the start than `loss.kl_guard`, which
ends the steps of this update. The distance is known when the last micro-batch has been
forwarded. Its loss is then made not-a-number: so the step is left out in the one way that
every ZeRO stage knows, and costs no pass of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from learners.batch import Trajectory
from learners.clock import device_time
from learners.loss import Outcome, Tokens, batch_scale, token_losses
from learners.measures import Consistency, Progress, watch_gap
from learners.minibatches import plan_share
from learners.model import pack_logprobs, pack_logprobs_and_entropies
from learners.optimiser import GuardedAdamW
from learners.packing import Pack, by_trajectory, pack_trajectories
from learners.settings import LearnerSettings


@dataclass
class Batch:
    """What all steps of an update train on, by trajectory. `start` is what has been read of the
    update's start, or what its first step finds, if that trains the whole batch."""

    trajectories: Sequence[Trajectory]
    advantages: list[np.ndarray]
    version: int | None
    start: dict[int, np.ndarray] = field(default_factory=dict)
    reference: list[np.ndarray] | None = None

    def pack(self, indices: Sequence[int]) -> Pack:
        return pack_trajectories(
            [self.trajectories[index] for index in indices],
            [self.advantages[index] for index in indices],
            self.version,
            [self.start[index] for index in indices] if all(index in self.start for index in indices) else None,
            None if self.reference is None else [self.reference[index] for index in indices],
        )

    def keep(self, indices: Sequence[int], start: torch.Tensor) -> None:
        chosen = [self.trajectories[index] for index in indices]
        self.start |= zip(indices, by_trajectory(start.cpu().numpy(), chosen), strict=True)


@dataclass
class Taken:
    """Steps that moved the weights, that were not finite, that the KL guard left out."""

    applied: int = 0
    bad: int = 0
    guarded: int = 0
    micro_batches: int = 0
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])  # forward and backward; step
    norms: list[float] = field(default_factory=list)  # of the gradients of steps that were applied
    progress: list[dict[str, float]] = field(default_factory=list)  # of each step
    consistency: dict[str, float] = field(default_factory=dict)

    def figures(self, settings: LearnerSettings) -> dict[str, float]:
        """Means over the steps that were applied; of those tried where there are none."""
        moved = [each for each in self.progress if each["applied"]] or self.progress
        found = {
            "loss": float(np.mean([each["loss"] for each in moved])),
            "grad_norm": float(np.mean(self.norms)) if self.norms else math.nan,
            "steps": float(self.applied),
            "bad_steps": float(self.bad),
            "micro_batches": float(self.micro_batches),
            "forward_backward_seconds": self.seconds[0],
            "step_seconds": self.seconds[1],
        }
        if settings.steps > 1:
            found["update_kl"] = max(each["kl"] for each in self.progress)
            found["guarded_steps"] = float(self.guarded)
        if settings.loss.kind != "policy_gradient":
            found["clipped_share"] = float(np.mean([each["clipped"] for each in moved]))
        if settings.loss.entropy:
            found["policy_entropy"] = float(np.mean([each["entropy"] for each in moved]))
        return self.consistency | found


def tokens_of(pack: Pack, device: torch.device) -> Tokens:
    arrays = pack.advantages, pack.behaviour, pack.fresh, pack.rows, pack.start, pack.reference
    return Tokens(*(None if array is None else torch.from_numpy(array).to(device) for array in arrays))


def pack_outcome(
    model: torch.nn.Module,
    pack: Pack,
    settings: LearnerSettings,
    temperature: float,
    scale: float,
    device: torch.device,
) -> tuple[Outcome, Tokens]:
    """The loss of one micro-batch, by one forward pass."""
    tokens = tokens_of(pack, device)
    if settings.loss.entropy:
        logprobs, entropy = pack_logprobs_and_entropies(model, pack, temperature, device)
    else:
        logprobs, entropy = pack_logprobs(model, pack, temperature, device), None
    return token_losses(logprobs, entropy, tokens, settings, scale), tokens


class PolicySteps:
    def __init__(
        self,
        engine: Any,
        settings: LearnerSettings,
        temperature: float,
        device: torch.device,
        optimiser: GuardedAdamW,
        rank: int,
    ):
        self.engine, self.optimiser, self.settings = engine, optimiser, settings
        self.temperature, self.device, self.rank = temperature, device, rank

    def take(self, batch: Batch, steps: list[list[int]], rate: float, still: bool = False) -> Taken:
        """`steps`: the trajectories of each. `still`: measure, and move nothing."""
        taken, consistency = Taken(), Consistency(self.device)
        for group in self.engine.optimizer.param_groups:
            group["lr"] = rate
        if batch.start:
            for indices in self._mine(batch, range(len(batch.trajectories))):
                if indices:
                    tokens = tokens_of(batch.pack(indices), self.device)
                    consistency.add(tokens.start, tokens, self.settings)
            self._check(consistency, taken)
        self.engine.train()
        for number, share in enumerate(steps):
            began = device_time(self.device)
            scale = 0.0 if still else self._scale(batch, share)
            found, far = self._accumulate(batch, share, scale, None if taken.consistency else consistency, number > 0)
            stepped = device_time(self.device)
            if not taken.consistency:
                self._check(consistency, taken)
            self.engine.step()
            found["applied"] = self.engine.was_step_applied()
            taken.progress.append(found)
            taken.seconds[0] += stepped - began
            taken.seconds[1] += device_time(self.device) - stepped
            taken.micro_batches += found.pop("micro_batches")
            if far:
                taken.guarded = len(steps) - number
                break
            if found["applied"]:
                taken.applied += 1
                norm = self.optimiser.norm if self.optimiser.clip else self.engine.get_global_grad_norm()
                taken.norms.append(math.nan if norm is None else float(norm))
            else:
                taken.bad += 1
        return taken

    def _accumulate(
        self, batch: Batch, share: list[int], scale: float, consistency: Consistency | None, guarded: bool
    ) -> tuple[dict[str, float], bool]:
        """The gradient of one step, and whether the policy is too far for it to be taken.
        `consistency` is handed in where the weights are still those of the start."""
        progress, far = Progress(self.device), False
        micro_batches = self._mine(batch, share)
        for place, indices in enumerate(micro_batches, start=1):
            pack = batch.pack(indices or share[:1])  # a rank without work runs some sequence, for the lockstep
            outcome, tokens = pack_outcome(self.engine, pack, self.settings, self.temperature, scale, self.device)
            weight = 1.0 if indices else 0.0
            if indices:
                progress.add(outcome)
                if consistency is not None:
                    consistency.add(outcome.start, tokens, self.settings)
                    batch.keep(indices, outcome.start)
            if guarded and self.settings.loss.kl_guard is not None and place == len(micro_batches):
                far = progress.over_ranks()["kl"] > self.settings.loss.kl_guard
                weight = math.nan if far else weight
            # DeepSpeed takes the mean over ranks; the loss is a sum over them
            self.engine.backward(weight * outcome.loss * self.settings.ranks)
        return progress.over_ranks() | {"micro_batches": len(micro_batches)}, far

    def _mine(self, batch: Batch, share: Sequence[int]) -> list[list[int]]:
        return plan_share(batch.trajectories, share, self.settings)[self.rank]

    def _scale(self, batch: Batch, share: list[int]) -> float:
        return batch_scale([batch.trajectories[index] for index in share], self.settings.loss_aggregation)

    def _check(self, consistency: Consistency, taken: Taken) -> None:
        """Before the first step: a batch whose log-probs are not the engines' moves nothing."""
        figures = consistency.over_ranks(self.settings)
        taken.consistency = figures | watch_gap(figures, self.settings)
