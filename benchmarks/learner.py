"""Learner: what an update costs on top of a bare loop on the same batch.

    parley     LearnerRank.update: episodes in, credit, packs, DeepSpeed, measures out;
               `core` is its forward, backward and step alone, as it reports them itself
    bare       a plain transformers model and torch's AdamW on the same packed tokens with the
               same attention, clipped at the same norm; tensors are made beforehand
    padded     the same without packing: rows padded to the longest of their micro-batch,
               logits at every position

The batch is real: games that the embedded policy plays. Tokens are those of whole
sequences, observations included; padding does not count. core / bare is the price of
DeepSpeed, importance weights and measures; parley / bare adds everything around them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rich.table import Table
from transformers import AutoModelForCausalLM

from benchmarks.contest import Sample, cpu_ratio, ratio, speed, spread, take_turns
from benchmarks.games import demo, new_play, play_out, start_engine, tickets
from benchmarks.models import parameters_of, untrained
from benchmarks.report import Say, run_alone, short, spread_of
from cluster.config import RunConfig
from envs.episode import Episode
from envs.settings import GameSettings
from learners import attention
from learners.batch import Trajectory, collect
from learners.credit import assign_credit
from learners.embedded.build import build_policy
from learners.group import environment
from learners.packing import Pack, pack_trajectories, plan
from learners.rendezvous import meeting_point
from learners.settings import LearnerSettings
from reward_service import make_shaper
from reward_service.settings import RewardSettings

EPISODES = {"0.1M": 128, "10M": 32}
ROUNDS = {"0.1M": 15, "10M": 5}
UPDATE_TOLERANCE = 0.01  # share of the update by which contestants may differ
PARTS = ("fetch", "prepare", "forward_backward", "step")
CORE = ("forward_backward", "step")
ZERO = (2, 0)  # the recipes' stage, and DeepSpeed without any


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
            "packed": attention.layout(pack.lengths, torch.device("cpu")),
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

    def __init__(self, model: Path, config: RunConfig, zero: int, episodes: list[Episode]):
        import ray

        from learners.rank import LearnerRank

        settings = config.learner.model_copy(update={"zero": zero})
        self.rank = LearnerRank(settings, str(model), config.rollout.temperature, 0, 0, "shared_memory")
        self.rank.start(*meeting_point())
        self.episodes = [ray.put(episode) for episode in episodes]  # a reference each, as from the workers
        self.rewards = make_shaper(RewardSettings(), GameSettings()).shape(episodes)
        self.parts: list[dict[str, float]] = []

    def update(self) -> int:
        measured = self.rank.update(self.episodes, self.rewards)
        self.parts.append({part: measured[f"{part}_seconds"] for part in PARTS})
        return int(measured["tokens"])


def measure(quick: bool, say: Say) -> dict[str, Any]:
    config = demo("rollout.engine.kind=transformers")
    policy = build_policy(config.game, config.model.embedded)
    results = {}
    with tempfile.TemporaryDirectory(prefix="parley-benchmark-") as folder, ray_and_deepspeed(config.learner):
        for size in list(EPISODES)[: 1 if quick else None]:
            say(f"{size} parameters")
            engine = start_engine(config, policy)
            episodes = play_out(new_play(config, policy, engine), tickets(config, EPISODES[size]))
            engine.close()
            model = policy if size == "0.1M" else untrained(size, config, Path(folder))
            results[size] = contest(config, model, episodes, 5 if quick else ROUNDS[size])
    return {"sizes": results}


@contextmanager
def ray_and_deepspeed(settings: LearnerSettings) -> Iterator[None]:
    """A rank reads its batch from Ray's object store, and is set up by its environment."""
    import ray

    os.environ |= environment(settings)
    torch.set_num_threads(max(1, int(settings.cpus_per_rank)))
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=2**28,
    )
    try:
        yield
    finally:
        ray.shutdown()


def contest(config: RunConfig, model: Path, episodes: list[Episode], rounds: int) -> dict[str, Any]:
    settings = config.learner
    trajectories = collect(episodes, make_shaper(RewardSettings(), GameSettings()).shape(episodes))
    packs = packs_of(trajectories, settings)
    scale, temperature = 1.0 / len(trajectories), config.rollout.temperature
    bare = BareLoop(model, settings, temperature, packed(packs, scale), attention.NAME)
    row_by_row = BareLoop(model, settings, temperature, padded(packs, scale), "sdpa")
    bare.tokens = row_by_row.tokens = sum(len(trajectory) for trajectory in trajectories)
    ranks = {f"zero{zero}": Rank(model, config, zero, episodes) for zero in ZERO}
    contestants = {name: rank.update for name, rank in ranks.items()} | {
        "bare": bare.update,
        "padded": row_by_row.update,
    }
    before = weights_of(bare)
    for warm_up in contestants.values():
        warm_up()
    for name, rank in ranks.items():
        same_update(name, before, rank.rank.parameters(), weights_of(bare))
    same_update("padded", before, weights_of(row_by_row), weights_of(bare))
    for rank in ranks.values():
        rank.parts.clear()
    samples = take_turns(contestants, rounds)
    cores = {name: core_of(samples[name], rank.parts) for name, rank in ranks.items()}
    return {
        "parameters": parameters_of(model),
        "episodes": len(episodes),
        "tokens": bare.tokens,
        "trained_tokens": sum(len(pack.targets) for pack in packs),
        "micro_batches": len(packs),
        "tokens_per_second": {name: asdict(speed(each)) for name, each in samples.items()},
        "core_tokens_per_second": {name: asdict(speed(each)) for name, each in cores.items()},
        "core_to_bare": {name: asdict(ratio(each, samples["bare"])) for name, each in cores.items()},
        "parley_to_bare": {name: asdict(ratio(samples[name], samples["bare"])) for name in ranks},
        "parley_to_bare_cpu": {name: asdict(cpu_ratio(samples[name], samples["bare"])) for name in ranks},
        "parley_to_padded": {name: asdict(ratio(samples[name], samples["padded"])) for name in ranks},
        "seconds": {
            name: {part: asdict(spread([one[part] for one in rank.parts])) for part in PARTS}
            for name, rank in ranks.items()
        },
        "samples": {name: [asdict(sample) for sample in each] for name, each in samples.items()},
    }


def weights_of(loop: BareLoop) -> dict[str, np.ndarray]:
    return {name: weight.detach().numpy().copy() for name, weight in loop.model.named_parameters()}


def same_update(name: str, before: dict, ours: dict, bare: dict) -> None:
    """The contest is only fair if the first update moved the weights to the same place. AdamW's
    first step is about the same size for every weight, so rounding moves a few that have
    hardly a gradient: what is compared is the mean."""
    moved = sum(float(np.abs(bare[key] - before[key]).sum()) for key in bare)
    apart = sum(float(np.abs(bare[key] - ours[key]).sum()) for key in bare)
    if not moved or apart > UPDATE_TOLERANCE * moved:
        raise RuntimeError(
            f"{name} and the bare loop did not make the same update: {apart:.2e} apart of {moved:.2e} moved"
        )


def core_of(samples: list[Sample], parts: list[dict[str, float]]) -> list[Sample]:
    """The same updates, of their forward, backward and step alone."""
    seconds = [sum(one[part] for part in CORE) for one in parts]
    return [Sample(sample.tokens, each, each) for sample, each in zip(samples, seconds, strict=True)]


def packs_of(trajectories: list[Trajectory], settings: LearnerSettings) -> list[Pack]:
    """The learner's own micro-batches."""
    credit = assign_credit(trajectories, settings.credit, {})
    ends = np.cumsum([int(trajectory.turn_tokens.sum()) for trajectory in trajectories])[:-1]
    advantages = np.split(credit.advantages, ends)
    (mine,) = plan(trajectories, 1, settings.tokens_per_micro_batch)
    return [pack_trajectories([trajectories[i] for i in cut], [advantages[i] for i in cut], 0) for cut in mine]


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title="Learner: one update on real games", title_justify="left")
    for heading in ("parameters", "tokens"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for heading in ("tokens/s", "/ bare, wall", "/ bare, CPU", "core / bare", "/ padded"):
        table.add_column(heading, justify="right")
    labels = {
        "zero2": "Parley, ZeRO 2",
        "zero0": "Parley, ZeRO 0",
        "bare": "bare loop, packed",
        "padded": "bare loop, padded",
    }
    columns = (
        ("parley_to_bare", ".2f"),
        ("parley_to_bare_cpu", ".2f"),
        ("core_to_bare", ".2f"),
        ("parley_to_padded", ".2f"),
    )
    for one in result["sizes"].values():
        for name, label in labels.items():
            first = name == "zero2"
            table.add_row(
                short(one["parameters"]) if first else "",
                f"{one['tokens']:,}" if first else "",
                label,
                spread_of(one["tokens_per_second"][name], ",.0f"),
                *(spread_of(one[key][name], form) if name in one[key] else "" for key, form in columns),
                end_section=name == "padded",
            )
    return [table]


if __name__ == "__main__":
    run_alone("learner", measure, tables)
