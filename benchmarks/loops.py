"""Contestants of the learner benchmark.

zero2, zero0   LearnerRank.update: episodes in, credit, packs, DeepSpeed, measures out
zero2, wide    the same with a thread for each core; all others have one
bare           a plain transformers model and torch's AdamW on the same packed tokens with the
               same attention, clipped at the same norm; tensors are made beforehand
padded         the same without packing: `ROWS` games at a time, as they come, padded to the
               longest of them, logits at every position
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

from cluster.recipe.config import RunConfig
from envs.episode import Episode
from envs.settings import GameSettings
from learners.batch.crediting import assign_credit
from learners.batch.packing import Pack, pack_trajectories, plan
from learners.batch.trajectories import Trajectory, collect
from learners.model import attention
from learners.settings import LearnerSettings
from learners.transport.rendezvous import meeting_point
from reward_service.settings import RewardSettings

PARTS = ("fetch", "prepare", "forward_backward", "step")
ROWS = 16
RANKS = {"zero2": (2, 1), "zero2, wide": (2, len(os.sched_getaffinity(0))), "zero0": (0, 1)}  # stage, threads


class BareLoop:
    """What one would write by hand: forward, backward, clip, AdamW."""

    def __init__(self, model: Path, settings: LearnerSettings, temperature: float, batches: list, kernel: str):
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation=kernel)
        self.model.train()
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=settings.learning_rate, betas=settings.betas, weight_decay=settings.weight_decay
        )
        self.clip, self.temperature, self.batches = settings.gradient_clip, temperature, batches
        self.tokens = 0

    def accumulate(self) -> None:
        for inputs, keep, targets, advantages in self.batches:
            logits = self.model(**inputs, use_cache=False).logits
            logits = logits[0] if keep is None else logits[keep]
            logprobs = -F.cross_entropy(logits / self.temperature, targets, reduction="none")
            (-(advantages * logprobs).sum()).backward()

    def update(self) -> int:
        self.accumulate()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return self.tokens


def packed(packs: list[Pack], scale: float) -> list:
    """Logits only where a token is predicted, as the learner asks for them."""
    batches = []
    for pack in packs:
        inputs = {
            "input_ids": torch.from_numpy(pack.ids)[None],
            "position_ids": torch.from_numpy(pack.positions)[None],
            "packed": attention.layout(pack.lengths, torch.device("cpu"), gone_on=pack.until),
            "logits_to_keep": torch.from_numpy(pack.keep),
        }
        batches.append((inputs, None, torch.from_numpy(pack.targets), torch.from_numpy(pack.advantages) * scale))
    return batches


def padded(packs: list[Pack], scale: float) -> list:
    batches = []
    for pack in packs:
        rows, longest = len(pack.lengths), int(pack.lengths.max())
        own = torch.arange(longest) < torch.from_numpy(pack.lengths)[:, None]
        ids = torch.zeros(rows, longest, dtype=torch.int64)
        ids[own] = torch.from_numpy(pack.ids)
        predicts = torch.zeros(len(pack.ids), dtype=torch.bool)
        predicts[pack.keep] = True
        keep = torch.zeros(rows, longest, dtype=torch.bool)
        keep[own] = predicts
        inputs = {"input_ids": ids, "attention_mask": own.long()}
        batches.append((inputs, keep, torch.from_numpy(pack.targets), torch.from_numpy(pack.advantages) * scale))
    return batches


class Rank:
    """A LearnerRank in this process, and the seconds that it reports of itself."""

    def __init__(self, model: Path, config: RunConfig, zero: int, threads: int, episodes: list[Episode]):
        import ray

        from learners.rank import LearnerRank

        settings = config.learner.model_copy(update={"zero": zero})
        self.rank = LearnerRank(settings, str(model), config.rollout.temperature, 0, 0, "shared_memory")
        self.rank.start(*meeting_point())
        self.episodes = [ray.put(episode) for episode in episodes]  # a reference each, as from the workers
        self.rewards = RewardSettings().shaper.make(GameSettings()).shape(episodes)
        self.parts: list[dict[str, float]] = []
        self.threads, self.before = threads, torch.get_num_threads()

    def update(self) -> int:
        torch.set_num_threads(self.threads)
        try:
            measured = self.rank.update(self.episodes, self.rewards)
        finally:
            torch.set_num_threads(self.before)
        self.parts.append({part: measured[f"{part}_seconds"] for part in PARTS})
        return int(measured["tokens"])


def packs_of(trajectories: list[Trajectory], settings: LearnerSettings) -> list[Pack]:
    """The learner's own micro-batches."""
    (mine,) = plan(trajectories, 1, settings.tokens_per_micro_batch, shared=True)
    return _packs(trajectories, settings, mine, shared=True)


def rows_of(trajectories: list[Trajectory], settings: LearnerSettings) -> list[Pack]:
    """`ROWS` games each, as they come."""
    everyone = range(len(trajectories))
    return _packs(trajectories, settings, [everyone[first : first + ROWS] for first in everyone[::ROWS]])


def _packs(
    trajectories: list[Trajectory], settings: LearnerSettings, cuts: Sequence[Sequence[int]], shared: bool = False
) -> list[Pack]:
    credit = assign_credit(trajectories, settings.credit, {})
    ends = np.cumsum([int(trajectory.turn_tokens.sum()) for trajectory in trajectories])[:-1]
    advantages = np.split(credit.advantages, ends)
    return [
        pack_trajectories([trajectories[i] for i in cut], [advantages[i] for i in cut], 0, shared=shared)
        for cut in cuts
    ]


@dataclass(frozen=True, slots=True)
class Work:
    """One update: a model and the games that it is to learn from."""

    model: Path
    config: RunConfig
    episodes: list[Episode]

    def trajectories(self) -> list[Trajectory]:
        return collect(self.episodes, RewardSettings().shaper.make(GameSettings()).shape(self.episodes))

    def contestant(self, name: str) -> BareLoop | Rank:
        if name in RANKS:
            return Rank(self.model, self.config, *RANKS[name], self.episodes)
        settings, trajectories = self.config.learner, self.trajectories()
        scale = 1.0 / len(trajectories)
        if name == "bare":
            batches, kernel = packed(packs_of(trajectories, settings), scale), attention.NAME
        else:
            batches, kernel = padded(rows_of(trajectories, settings), scale), "sdpa"
        loop = BareLoop(self.model, settings, self.config.rollout.temperature, batches, kernel)
        loop.tokens = sum(len(trajectory) for trajectory in trajectories)
        return loop
