"""Packs of games through the model: log-probs, entropies, loss and gradients on the device and on the CPU.

The measure is the CPU in float32. In float32 the device rounds otherwise and nothing else, so the
limits are a few hundred roundings; in bfloat16 they are what eight bits of mantissa leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from inspect import signature
from pathlib import Path

import numpy as np
import torch

from benchmarks.architectures import ALWAYS_TIED, SHAPES
from benchmarks.gpu.bench import Bench, NotHere
from benchmarks.gpu.made_up import TINY, behind, large_model, prepare, random_model, settings, trajectories
from learners.batch.openings import BLOCK
from learners.batch.packing import Pack, pack_trajectories
from learners.batch.trajectories import Trajectory
from learners.model.load import load_model, pack_logprobs_and_entropies
from learners.settings import LearnerSettings
from learners.update.policy_steps import pack_loss

CPU = torch.device("cpu")
EXACT, GRADIENT = 1e-4, 1e-4  # float32: largest difference of a log-prob; of the whole gradient, relative
HALF, HALF_COSINE = 0.05, 0.97  # bfloat16: mean difference of a log-prob; of gradients
SLICED, WIDE_GAMES = 65_536, 30
OPENING = np.arange(3 * BLOCK, dtype=np.int32) % 40
LOSS = {"loss": {"entropy": 0.01}}


@dataclass
class Found:
    logprobs: torch.Tensor
    entropies: torch.Tensor
    loss: float
    gradient: torch.Tensor

    def apart_from(self, exact: Found) -> dict[str, tuple[float, float]]:
        """Each difference in float32 with its limit."""
        return {
            "log-probs": (float((self.logprobs - exact.logprobs).abs().max()), EXACT),
            "entropies": (float((self.entropies - exact.entropies).abs().max()), EXACT),
            "loss": (abs(self.loss - exact.loss) / abs(exact.loss), EXACT),
            "gradient": (float((self.gradient - exact.gradient).norm() / exact.gradient.norm()), GRADIENT),
        }

    def mean_apart(self, other: Found) -> float:
        return float((self.logprobs - other.logprobs).abs().mean())

    def cosine(self, other: Found) -> float:
        return float(torch.nn.functional.cosine_similarity(self.gradient, other.gradient, dim=0))


def check(bench: Bench) -> None:
    device = prepare(bench)
    for family in SHAPES:
        with bench.part(family):
            of_family(bench, device, family)
    path = random_model(bench.folder)
    batch = trajectories(6, 1)
    with bench.part("gradient checkpointing"):
        plain = asked(path, batch, settings(**LOSS), device)
        again = asked(path, batch, settings(gradient_checkpointing=True, **LOSS), device)
        bench.all_within("gradient checkpointing, against none", again.apart_from(plain))
    with bench.part("choices among listed actions"):
        listed = trajectories(6, 2, listed=True)
        ours, exact = (asked(path, listed, settings(**LOSS), where) for where in (device, CPU))
        bench.all_within("choices among listed actions", ours.apart_from(exact))
    with bench.part("a large vocabulary, in slices"):
        wide = large_model(bench.folder, CPU, **(TINY | {"vocab_size": SLICED}))
        many = trajectories(WIDE_GAMES, 3)
        ours, exact = (asked(wide, many, settings(**LOSS), where) for where in (device, CPU))
        bench.all_within(f"{SLICED:,} words, {len(ours.logprobs)} places", ours.apart_from(exact))
    with bench.part("openings that games share"):
        of_openings(bench, path, [behind(OPENING, each) for each in trajectories(6, 4)], device)
    for kernel in ("eager", "varlen", "flash_attention_2"):
        with bench.part(f"attention={kernel}"):
            of_kernel(bench, path, batch, device, kernel)
    with bench.part("learner.compile"):
        if not bench.on_card:
            raise NotHere("it is tried on a card only: on a CPU compiling takes longer than all the rest")
        plain = asked(path, batch, settings(**LOSS), device)
        compiled = asked(path, batch, settings(compile=True, **LOSS), device)
        bench.all_within("learner.compile, against none", compiled.apart_from(plain))


def of_family(bench: Bench, device: torch.device, family: str) -> None:
    path, batch = random_model(bench.folder, family, tied=family in ALWAYS_TIED), trajectories(6, 0)
    exact = asked(path, batch, settings(**LOSS), CPU)
    ours = asked(path, batch, settings(**LOSS), device)
    alone = torch.cat([asked(path, [one], settings(**LOSS), device).logprobs for one in batch])
    exactly = ours.apart_from(exact) | {"packed against alone": (float((alone - ours.logprobs).abs().max()), EXACT)}
    bench.all_within(f"{family}, float32", exactly)
    half = asked(path, batch, settings(dtype="bfloat16", **LOSS), device)
    bench.within(f"{family}, bfloat16: mean of log-probs", half.mean_apart(exact), HALF)
    bench.within(f"{family}, bfloat16: cosine of gradients", half.cosine(exact), HALF_COSINE, least=True)


def of_kernel(bench: Bench, path: Path, batch: list[Trajectory], device: torch.device, kernel: str) -> None:
    """The other kernels, against the CPU, and packed against alone; the fast ones know bfloat16 alone."""
    half = kernel != "eager"
    if half and not bench.on_card:
        raise NotHere("it needs a card")
    if kernel == "flash_attention_2" and find_spec("flash_attn") is None:
        raise NotHere("flash_attn is not installed")
    if kernel == "varlen":
        from torch.nn.attention.varlen import varlen_attn

        if not {"window_size", "enable_gqa"} <= set(signature(varlen_attn).parameters):
            raise NotHere(f"that of torch {torch.__version__} knows neither windows nor shared heads")
    changes = {"dtype": "bfloat16", "gpus_per_rank": 1.0} if half else {}
    chosen = settings(attention=kernel, **LOSS, **changes)
    exact, ours = asked(path, batch, settings(**LOSS), CPU), asked(path, batch, chosen, device)
    alone = torch.cat([asked(path, [one], chosen, device).logprobs for one in batch])
    limit = HALF if half else EXACT
    found = {
        "mean of log-probs": (ours.mean_apart(exact), limit),
        "packed against alone": (float((alone - ours.logprobs).abs().mean()), limit),
    }
    bench.all_within(f"attention={kernel}, {'bfloat16' if half else 'float32'}", found)


def of_openings(bench: Bench, path: Path, batch: list[Trajectory], device: torch.device) -> None:
    """Computed once, in bfloat16 as on cards, against every game by itself in float32 on the CPU."""
    exact = asked(path, batch, settings(**LOSS), CPU)
    ours = asked(path, batch, settings(dtype="bfloat16", **LOSS), device, shared=True)
    saved = 1 - len(pack_of(batch, shared=True).ids) / sum(map(len, batch))
    bench.within(f"openings, {saved:.0%} of all tokens: mean of log-probs", ours.mean_apart(exact), HALF)
    bench.within("openings: cosine of gradients", ours.cosine(exact), HALF_COSINE, least=True)


def pack_of(batch: list[Trajectory], shared: bool = False) -> Pack:
    rng = np.random.default_rng(0)
    advantages = [rng.normal(size=int(t.turn_tokens.sum())) for t in batch]
    return pack_trajectories(batch, advantages, version=0, shared=shared)


def asked(
    path: Path, batch: list[Trajectory], learner: LearnerSettings, device: torch.device, shared: bool = False
) -> Found:
    """All that the learner asks of a pack, by a model that it loads itself."""
    model, pack = load_model(str(path), learner, seed=0).to(device), pack_of(batch, shared)
    model.train()
    with torch.no_grad():
        logprobs, entropies = pack_logprobs_and_entropies(model, pack, 0.9, device)
    outcome, _ = pack_loss(model, pack, learner, 0.9, 1.0 / len(batch), device)
    outcome.loss.backward()
    gradient = torch.cat([p.grad.float().flatten() for p in model.parameters() if p.grad is not None])
    return Found(logprobs.float().cpu(), entropies.float().cpu(), float(outcome.loss.detach()), gradient.double().cpu())
