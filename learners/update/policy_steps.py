"""The policy's part of an update: the optimiser steps on one batch.

    for each share of the batch     epochs x minibatches, learners/batch/minibatches.py
        for each micro-batch        forward, loss, backward
        step                        unless it is not finite, or the policy has gone far enough

All ranks take the same decisions, from sums over all of them. A gradient that is not finite is
counted and touches neither weights nor moments.

No step ends further from the update's start than `loss.kl_guard`. The distance after a step is known
when the next one's last micro-batch has been forwarded; the loss of that one is then made
not-a-number, so that its step is left out in the one way that every ZeRO stage knows, and costs
no pass of its own. After the last step the distance takes a forward pass over its share. The
step that went too far is shortened until it did not, and the rest of the update's are left out:

    step          weights before  ------------------------------->  too far
    shortened     weights before  ----------->  near enough         or all the way back, after TRIES
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from learners.batch.minibatches import batch_scale, plan_share
from learners.batch.packing import Pack, by_trajectory, pack_trajectories
from learners.batch.trajectories import Trajectory
from learners.loss.clipping import ClippedLoss
from learners.loss.loss import PackLoss, Tokens
from learners.loss.ratios import kl_estimates
from learners.model.load import pack_logprobs, pack_logprobs_and_entropies
from learners.model.router_replay import RouterReplay, replaying
from learners.model.routers import RouterLoad
from learners.optimiser import GuardedAdamW, take_step
from learners.settings import LearnerSettings
from learners.update.clock import device_time
from learners.update.measures import Consistency, Progress, Sums, watch_gap

TRIES = 3  # to shorten a step, each measured; then it is taken back
AIM = 0.8  # of the guard; the distance grows as the square of the way, or slower
LEAST = 0.01  # of a step; with less it is taken back


@dataclass
class Batch:
    """What all steps of an update train on, by trajectory. `old_logprobs` have been read for the credit, or are what
    the first step finds of its own trajectories and a pass before it of the others'."""

    trajectories: Sequence[Trajectory]
    advantages: list[np.ndarray]
    version: int | None
    old_logprobs: dict[int, np.ndarray] = field(default_factory=dict)
    reference: list[np.ndarray] | None = None

    def pack(self, indices: Sequence[int], shared: bool = False) -> Pack:
        return pack_trajectories(
            [self.trajectories[index] for index in indices],
            [self.advantages[index] for index in indices],
            self.version,
            [self.old_logprobs[index] for index in indices]
            if all(index in self.old_logprobs for index in indices)
            else None,
            None if self.reference is None else [self.reference[index] for index in indices],
            shared,
        )

    def keep(self, indices: Sequence[int], old_logprobs: torch.Tensor) -> None:
        chosen = [self.trajectories[index] for index in indices]
        self.old_logprobs |= zip(indices, by_trajectory(old_logprobs.cpu().numpy(), chosen), strict=True)

    def exchange(self, ranks: int) -> None:
        """What each rank has kept, to all of them: another step may give them others' trajectories."""
        found: list[dict[int, np.ndarray]] = [{}] * ranks
        dist.all_gather_object(found, self.old_logprobs)
        for each in found:
            self.old_logprobs |= each


@dataclass
class StepResults:
    """Steps that moved the weights, that were not finite, that the KL guard left out; and how much
    of the last one's way was left."""

    applied: int = 0
    bad: int = 0
    guarded: int = 0
    step_left: float = 1.0
    distances: list[float] = field(default_factory=list)  # from the update's start, each time it was measured
    micro_batches: int = 0
    read_seconds: float = 0.0
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])  # forward and backward; step
    norms: list[float] = field(default_factory=list)  # of the gradients of steps that were applied
    progress: list[dict[str, Any]] = field(default_factory=list)  # of each step
    consistency: dict[str, float] = field(default_factory=dict)

    def figures(self, settings: LearnerSettings) -> dict[str, float]:
        """Means over the steps that were applied; of those tried where there are none."""
        moved = [each for each in self.progress if each["applied"]] or self.progress
        found = {
            "loss": float(np.mean([each["loss"] for each in moved])),
            "grad_norm": float(np.mean(self.norms)) if self.norms else (math.nan if self.bad else 0.0),
            "steps": float(self.applied),
            "bad_steps": float(self.bad),
            "micro_batches": float(self.micro_batches),
            "shared_tokens": sum(each["shared"] for each in moved) / sum(each["in_games"] for each in moved),
            "forward_backward_seconds": self.seconds[0],
            "step_seconds": self.seconds[1],
        }
        if settings.steps > 1 or settings.loss.kl_guard is not None:
            found["update_kl"] = max([each["kl"] for each in self.progress] + self.distances)
            found["guarded_steps"] = float(self.guarded)
        if settings.loss.kl_guard is not None:
            found["kept_kl"] = self.distances[-1] if self.distances else 0.0
            found["step_left"] = self.step_left
        if isinstance(settings.loss, ClippedLoss):
            found["clipped_share"] = float(np.mean([each["clipped"] for each in moved]))
        if settings.loss.entropy:
            found["policy_entropy"] = float(np.mean([each["entropy"] for each in moved]))
        if settings.loss.router_aux:
            found["router_load"] = float(np.mean([each["router_load"] for each in moved]))
        return self.consistency | found


def tokens_of(pack: Pack, device: torch.device) -> Tokens:
    arrays = (
        pack.advantages,
        pack.sampler_logprobs,
        pack.on_policy,
        pack.trained_lengths,
        pack.old_logprobs,
        pack.reference,
    )
    return Tokens(*(None if array is None else torch.from_numpy(array).to(device) for array in arrays))


def pack_loss(
    model: torch.nn.Module,
    pack: Pack,
    settings: LearnerSettings,
    temperature: float,
    scale: float,
    device: torch.device,
) -> tuple[PackLoss, Tokens]:
    """The loss of one micro-batch, by one forward pass."""
    tokens = tokens_of(pack, device)
    if settings.loss.entropy:
        logprobs, entropy = pack_logprobs_and_entropies(model, pack, temperature, device)
    else:
        logprobs, entropy = pack_logprobs(model, pack, temperature, device), None
    return settings.loss.of_pack(logprobs, entropy, tokens, scale), tokens


class PolicySteps:
    def __init__(
        self,
        engine: Any,
        settings: LearnerSettings,
        temperature: float,
        device: torch.device,
        optimiser: GuardedAdamW,
        rank: int,
        replay: RouterReplay | None = None,
        shared: bool = False,
    ):
        self.engine, self.optimiser, self.settings = engine, optimiser, settings
        self.temperature, self.device, self.rank = temperature, device, rank
        self.replay, self.shared = replay, shared
        aux = settings.loss.router_aux
        self.routers = RouterLoad(engine.module, aux, device) if aux else None

    def take(self, batch: Batch, steps: list[list[int]], rate: float, still: bool = False) -> StepResults:
        """`steps`: the trajectories of each. `still`: measure on those of the first, and move nothing."""
        taken, consistency = StepResults(), Consistency(self.device)
        for group in self.engine.optimizer.param_groups:
            group["lr"] = rate
        if batch.old_logprobs:
            for indices in self._mine(batch, range(len(batch.trajectories))):
                if indices:
                    tokens = tokens_of(batch.pack(indices), self.device)
                    consistency.add(tokens.old_logprobs, tokens, self.settings)
            self._check(consistency, taken)
        elif others := sorted(set().union(*steps[1:]).difference(steps[0])):
            began = device_time(self.device)
            for indices, pack, logprobs in self._read(batch, others):
                consistency.add(logprobs, tokens_of(pack, self.device), self.settings)
                batch.keep(indices, logprobs)
            taken.read_seconds = device_time(self.device) - began
        self.engine.train(not still)
        for number, share in enumerate(steps[:1] if still else steps):
            began = device_time(self.device)
            unread = None if taken.consistency else consistency
            self._make_room()
            found, far = self._accumulate(batch, share, unread, guarded=number > 0, still=still)
            stepped = device_time(self.device)
            if not taken.consistency:
                self._check(consistency, taken)
                if self.settings.ranks > 1 and self.settings.minibatches > 1:
                    batch.exchange(self.settings.ranks)
            taken.progress.append(found)
            taken.micro_batches += found.pop("micro_batches")
            found["applied"] = not still and take_step(self.engine)
            taken.seconds[0] += stepped - began
            taken.seconds[1] += device_time(self.device) - stepped
            if far:
                taken.guarded = len(steps) - number
                break
            if found["applied"]:
                taken.applied += 1
                norm = self.optimiser.norm if self.optimiser.clip else self.engine.get_global_grad_norm()
                taken.norms.append(math.nan if norm is None else float(norm))
            elif not still:
                taken.bad += 1
        if self.settings.loss.kl_guard is not None and taken.applied:
            began = device_time(self.device)
            taken.distances = [found["kl"] if far else self._distance(batch, share)]
            taken.step_left = self._come_near(batch, share, taken.distances)
            taken.seconds[1] += device_time(self.device) - began
        return taken

    def _accumulate(
        self, batch: Batch, share: list[int], consistency: Consistency | None, guarded: bool, still: bool
    ) -> tuple[dict[str, Any], bool]:
        """The gradient of one step, and whether the policy is too far for it to be taken.
        `consistency` is handed in where the weights are still those of the start."""
        progress, far = Progress(self.device), False
        scale, micro_batches = self._scale(batch, share), self._mine(batch, share)
        for place, indices in enumerate(micro_batches, start=1):
            pack = batch.pack(indices or share[:1], self.shared)  # a rank without work runs one, for the lockstep
            with replaying(self.replay, pack):
                if self.routers is not None and not still:
                    self.routers.listen()
                with torch.set_grad_enabled(not still):
                    passed = self.engine, pack, self.settings, self.temperature, scale, self.device
                    outcome, of_pack = pack_loss(*passed)
                    loss, weight = outcome.loss, 1.0 if indices else 0.0
                    if self.routers is not None and not still:
                        loss = loss + self.routers.loss(self._tokens(batch, indices) / self._tokens(batch, share))
                if indices:
                    in_games = self._tokens(batch, indices)
                    progress.add(outcome, in_games, 0 if pack.until is None else in_games - len(pack.ids))
                    if consistency is not None:
                        consistency.add(outcome.old_logprobs, of_pack, self.settings)
                        batch.keep(indices, outcome.old_logprobs)
                if guarded and self.settings.loss.kl_guard is not None and place == len(micro_batches):
                    far = self._too_far(progress.over_ranks()["kl"])
                if far:  # then nobody takes the step
                    loss, weight = outcome.total, math.nan
                if not still:  # DeepSpeed takes the mean over ranks; the loss is a sum over them
                    self.engine.backward(weight * loss * self.settings.ranks)
        load = {} if self.routers is None else {"router_load": self.routers.over_ranks()}
        return progress.over_ranks() | {"micro_batches": len(micro_batches)} | load, far

    def _make_room(self) -> None:
        """On a card gradients lie in one piece: no earlier pass may keep its room in pieces."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # the guard

    def _too_far(self, distance: float) -> bool:
        return not distance <= self.settings.loss.kl_guard  # nor is it near if it is not a number

    def _distance(self, batch: Batch, share: list[int]) -> float:
        """From the update's start, on the tokens of the share: a forward pass over it."""
        sums = Sums(self.device, "tokens", "kl")
        for _, pack, logprobs in self._read(batch, share):
            old = torch.from_numpy(pack.old_logprobs).to(self.device)
            count = torch.tensor(float(len(old)), device=self.device)
            sums.add(count, kl_estimates(old.double(), logprobs.double(), "k3").sum())
        found = sums.over_ranks()
        return found["kl"] / max(found["tokens"], 1.0)

    def _come_near(self, batch: Batch, share: list[int], distances: list[float]) -> float:
        """Shorten the last step until it ends near enough. `distances` has the one after it, and is told the
        others. Which share of the step is left."""
        left = 1.0
        while self._too_far(distances[-1]):
            asked = math.sqrt(AIM * self.settings.loss.kl_guard / distances[-1]) if distances[-1] > 0 else 0.0
            part = asked if len(distances) <= TRIES and left * asked >= LEAST else 0.0
            self._leave(batch, share, part)
            left *= part
            distances.append(self._distance(batch, share))
            if not part:  # steps of other shares may have gone as far
                break
        return left

    def _leave(self, batch: Batch, share: list[int], part: float) -> None:
        """That part of the last step's way, by a step of the engine that looks at no gradient. ZeRO wants
        one to have been there all the same: of the shortest game, and of nothing."""
        shortest = min(share, key=lambda index: len(batch.trajectories[index]))
        self.engine.train()
        self._make_room()
        pack = batch.pack([shortest])
        with replaying(self.replay, pack):
            nothing = 0.0 * pack_logprobs(self.engine, pack, self.temperature, self.device).sum()
            self.engine.backward(nothing)
        self.optimiser.shorten_to = part
        applied = take_step(self.engine)
        self.optimiser.shorten_to = None
        if not applied:
            raise FloatingPointError(
                "a step of the policy went so far that the model computes no numbers any more, and could not be taken "
                "back: lower learner.learning_rate, and go on from the last checkpoint with parley resume"
            )

    def _read(self, batch: Batch, share: list[int]) -> Iterator[tuple[list[int], Pack, torch.Tensor]]:
        """A forward pass over the share without a gradient: of each of this rank's micro-batches the trajectories,
        the pack and the log-probs."""
        self.engine.eval()
        for indices in self._mine(batch, share):
            pack = batch.pack(indices or share[:1], self.shared)
            with torch.no_grad(), replaying(self.replay, pack):
                logprobs = pack_logprobs(self.engine, pack, self.temperature, self.device)
            if indices:
                yield indices, pack, logprobs

    def _mine(self, batch: Batch, share: Sequence[int]) -> list[list[int]]:
        return plan_share(batch.trajectories, share, self.settings, self.shared)[self.rank]

    def _tokens(self, batch: Batch, indices: Sequence[int]) -> int:
        return sum(len(batch.trajectories[index]) for index in indices)

    def _scale(self, batch: Batch, share: list[int]) -> float:
        return batch_scale([batch.trajectories[index] for index in share], self.settings.loss_aggregation)

    def _check(self, consistency: Consistency, taken: StepResults) -> None:
        """Before the first step: a batch whose log-probs are not the engines' moves nothing."""
        figures = consistency.over_ranks(self.settings)
        taken.consistency = figures | watch_gap(figures, self.settings)
