"""An update, as one rank makes it: from trajectories to the next weights.

    trajectories -> what is read off the model -> credit -> optimiser steps -> critic

Every rank is given the whole batch and plans it in the same way; it then reads and trains its own
share. All ranks run the same collectives in the same order. `engine` is DeepSpeed's, or anything
that steps as it does: what is learned does not depend on who drives the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from learners.batch.crediting import assign_credit
from learners.batch.minibatches import shares
from learners.batch.packing import by_trajectory, plan
from learners.batch.replayed import ReplayedBatches
from learners.batch.trajectories import Trajectory, label_anchors
from learners.credit.critics import UtteranceCriticSettings
from learners.credit.turns import Credit
from learners.critic.tokens import Critic, States, explained
from learners.critic.transitions import UtteranceBatch
from learners.critic.turns import AnyCritic, TurnCritics
from learners.loss.loss import LOSS
from learners.model.load import shares_openings
from learners.model.reference import Reference
from learners.model.router_replay import RouterReplay, check_recorded
from learners.optimiser import GuardedAdamW
from learners.settings import LearnerSettings
from learners.update.clock import device_time
from learners.update.policy_steps import Batch, PolicySteps
from learners.update.reading import BatchReader
from learners.update.schedule import critic_learning_rate, learning_rate

if TYPE_CHECKING:
    from learners.update.checkpoint import Parts

EQUAL = 1e-6  # returns that differ by no more are the same: rewards come in float32


@dataclass(slots=True)
class CreditedBatch:
    """A batch with its credit, before anything has moved."""

    trajectories: list[Trajectory]
    mine: list[list[int]]  # micro-batches of this rank's share
    readings: dict[str, np.ndarray]
    states: list[States] | UtteranceBatch  # what the critic learns from
    credit: Credit


def make_critic(settings: LearnerSettings, width: int, device: torch.device, seed: int) -> AnyCritic | None:
    """The one that the credit method needs."""
    critic = settings.credit.critic_settings
    if isinstance(critic, UtteranceCriticSettings):
        return TurnCritics(critic, width, device, seed)
    return None if critic is None else Critic(critic, width, device, seed)


class Learning:
    def __init__(
        self,
        engine: Any,
        optimiser: GuardedAdamW,
        settings: LearnerSettings,
        temperature: float,
        device: torch.device,
        seed: int,
        rank: int,
        critic: AnyCritic | None = None,  # of credit methods that need one
        reference: Reference | None = None,
    ):
        self.settings, self.seed, self.rank, self.critic, self.device = settings, seed, rank, critic, device
        self.replay = RouterReplay(engine.module, device) if settings.router_replay else None
        self.replayed = ReplayedBatches(settings.replay_batches)
        self.shared = shares_openings(engine, settings)
        self.reader = BatchReader(engine, settings, temperature, device, critic, reference, self.replay, self.shared)
        self.steps = PolicySteps(engine, settings, temperature, device, optimiser, rank, self.replay, self.shared)
        self.updates = 0  # applied
        self.bad_updates = 0  # skipped
        self.credit_state: dict[str, float] = {}
        # Of the last update: the number and seat of each trajectory, how many tokens it trains, and their advantages
        self.advantages: tuple[list[tuple[int, str]], list[int], np.ndarray] = [], [], np.empty(0, np.float32)

    def credit_of(self, trajectories: list[Trajectory], version: int | None = None) -> CreditedBatch:
        if self.replay is not None:
            check_recorded(trajectories)
        check_sampler(trajectories, self.settings)
        settings, most = self.settings, self.reader.most
        sizes = settings.ranks, settings.tokens_per_micro_batch, most
        mine = plan(trajectories, *sizes, self.shared)[self.rank]
        apart = plan(trajectories, *sizes, hindsight=True)[self.rank] if self.reader.wants_hindsight else []
        readings, states = self.reader.read(trajectories, mine, apart)
        if self.settings.credit.by_labels:
            readings["anchor"] = label_anchors(trajectories)
        if "sampler_logprobs" in self.settings.credit.readings:
            readings["sampler_logprobs"] = sampled_by(trajectories, readings["logprobs"], version, self.settings)
        credit = assign_credit(trajectories, self.settings.credit, self.credit_state, **readings)
        return CreditedBatch(trajectories, mine, readings, states, credit)

    def update(self, trajectories: list[Trajectory], version: int | None) -> dict[str, float]:
        """`version`: of the weights held now. A step whose gradient is not finite is left out:
        weights and optimiser stay as they were, bit for bit."""
        began = device_time(self.device)
        new, trajectories = trajectories, self.replayed.with_new(trajectories)
        replayed = len(trajectories) - len(new)
        credited = self.credit_of(trajectories, version)
        batch = self.batch(credited, version)
        of_new = batch.advantages[replayed:]
        names = [(trajectory.number, trajectory.seat) for trajectory in new]
        self.advantages = names, [len(each) for each in of_new], np.concatenate(of_new)
        prepare = device_time(self.device) - began
        torch.manual_seed(hash((self.seed, self.updates, self.bad_updates, self.rank)) & 0x7FFF_FFFF)
        learned = learned_from(trajectories, self.settings)
        nothing = nothing_to_learn(credited, learned, self.settings)
        still = nothing or (self.critic is not None and self.updates < self.critic.settings.warmup_updates)
        rate = 0.0 if still else learning_rate(self.settings, self.updates)
        chosen = learned or range(len(trajectories))  # where nothing is learned, all are measured
        drawn = shares(len(chosen), self.settings, self.seed, self.updates + self.bad_updates)
        steps = [[chosen[place] for place in share] for share in drawn]
        taken = self.steps.take(batch, steps, rate, still)
        applied = still or taken.applied > 0
        criticised = self.criticise(credited) if applied else {}
        if applied:
            self.updates += 1
            self.credit_state = credited.credit.state
            self.replayed.add(new)
        if taken.bad:
            self._count_bad_update()
        tokens = sum(len(trajectory) for trajectory in trajectories)
        return (
            taken.figures(self.settings)
            | criticised
            | _figures(trajectories, credited.credit, replayed)
            | credited.credit.figures
            | ({"cut_off_masked": 1 - len(learned) / len(trajectories)} if self.settings.mask_cut_off else {})
            | {
                "learning_rate": rate,
                "applied": float(applied),
                "nothing_to_learn": float(nothing),
                "bad_updates": float(self.bad_updates),
                "tokens": float(tokens),
                "tokens_per_second": tokens / max(sum(taken.seconds), 1e-9),
                "prepare_seconds": prepare + taken.read_seconds,
            }
        )

    def batch(self, credited: CreditedBatch, version: int | None) -> Batch:
        trajectories = credited.trajectories
        batch = Batch(trajectories, by_trajectory(credited.credit.advantages, trajectories), version)
        if self.settings.minibatches > 1 and "logprobs" in credited.readings:  # else the steps find them
            batch.old_logprobs = dict(enumerate(by_trajectory(credited.readings["logprobs"], trajectories)))
        if self.settings.loss.kl or self.settings.credit.penalty:
            batch.reference = by_trajectory(credited.readings["reference"], trajectories)
        return batch

    def criticise(self, credited: CreditedBatch) -> dict[str, float]:
        """Train the critic: on what credit says it should have read, or on targets of its own."""
        if self.critic is None:
            return {}
        rate = critic_learning_rate(self.settings, self.updates)
        if isinstance(self.critic, TurnCritics):
            return self.critic.learn(credited.states, rate)
        credit, trajectories = credited.credit, credited.trajectories
        used = np.ones(len(credit.targets), bool) if credit.valued is None else credit.valued
        targets, valued = by_trajectory(credit.targets, trajectories), by_trajectory(used, trajectories)
        none, nowhere = np.empty(0, np.float32), np.empty(0, bool)
        learned = self.critic.learn(
            credited.states,
            [np.concatenate([none, *(targets[i] for i in indices)]) for indices in credited.mine],
            [np.concatenate([nowhere, *(valued[i] for i in indices)]) for indices in credited.mine],
            rate,
        )
        read = credited.readings["values"]
        return learned | {
            "value_mean": float(read.mean()),
            "value_explained": explained(read[used], credit.targets[used]),
        }

    def _count_bad_update(self) -> None:
        self.bad_updates += 1
        if self.bad_updates >= self.settings.max_bad_updates:
            raise FloatingPointError(
                f"{self.bad_updates} updates had a loss or gradient that is not finite (learner.max_bad_updates="
                f"{self.settings.max_bad_updates}): lower learner.learning_rate, and look at loss, grad_norm and "
                "logprob_gap_max of the updates before, and at the rewards"
            )

    def parts(self) -> Parts:
        """What a checkpoint keeps of it beside the counters."""
        critic = {} if self.critic is None else {"critic": self.critic}
        return critic | ({"replayed": self.replayed} if self.settings.replay_batches else {})

    def counters(self) -> dict[str, Any]:
        return {"updates": self.updates, "bad_updates": self.bad_updates, "credit_state": self.credit_state}

    def restore(self, counters: dict[str, Any]) -> None:
        self.updates, self.bad_updates = counters["updates"], counters["bad_updates"]
        self.credit_state = counters["credit_state"]


def check_sampler(trajectories: Sequence[Trajectory], settings: LearnerSettings) -> None:
    """A likelihood alone can do without log-probs by the weights that sampled."""
    for each in trajectories if settings.loss.asks_sampler else ():
        if each.sequence.logprobs is None:
            raise ValueError(
                f"recorded game {each.number} does not tell with which log-probs it was sampled, which "
                f"learner.loss.kind={LOSS.name_of(settings.loss)} compares with; set it to likelihood"
            )


def sampled_by(
    trajectories: Sequence[Trajectory], old_logprobs: np.ndarray, version: int | None, settings: LearnerSettings
) -> np.ndarray:
    """Log-probs by the weights that sampled each trained token, for credit: as the loss has them."""
    masks = [trajectory.sequence.mask for trajectory in trajectories]
    stored, versions = (
        np.concatenate([getattr(t.sequence, name)[mask] for t, mask in zip(trajectories, masks, strict=True)])
        for name in ("logprobs", "versions")
    )
    return (
        stored
        if version is None or getattr(settings.loss, "correct_on_policy", False)
        else np.where(versions == version, old_logprobs, stored)
    )


def learned_from(trajectories: Sequence[Trajectory], settings: LearnerSettings) -> list[int]:
    """Places of those that the policy's loss is made of."""
    return [place for place, each in enumerate(trajectories) if each.terminated or not settings.mask_cut_off]


def nothing_to_learn(credited: CreditedBatch, learned: Sequence[int], settings: LearnerSettings) -> bool:
    """Whether no game of the batch went better than another, or none is learned from. What is left of the gradient is
    then the critic's error or the momentum of old steps, and AdamW moves the weights by it as by any other."""
    if not learned:
        return True
    if settings.loss.kl or settings.loss.entropy or settings.credit.penalty:
        return False  # they move the policy however games go
    trajectories = credited.trajectories
    if trajectories[0].kind == "reward" and trajectories[0].expected_advantages is None and len(trajectories) > 1:
        first = np.cumsum([0, *(len(trajectory.rewards) for trajectory in trajectories)])[:-1]
        if np.ptp(credited.credit.returns[first]) <= EQUAL:
            return True
    advantages = by_trajectory(credited.credit.advantages, trajectories)
    return not any(advantages[place].any() for place in learned)


def _figures(trajectories: Sequence[Trajectory], credit: Credit, replayed: int) -> dict[str, float]:
    """The first `replayed` ones have been learned from before."""
    first = np.cumsum([0, *(len(trajectory.rewards) for trajectory in trajectories)])[:-1]
    return {
        "trajectories": float(len(trajectories)),
        "replayed_trajectories": float(replayed),
        "trained_tokens": float(len(credit.advantages)),
        "alone": float(credit.alone),
        "return_mean": float(credit.returns[first[replayed:]].mean()),
        "advantage_mean": float(credit.advantages.mean()),
        "advantage_std": float(credit.advantages.std()),
    }
