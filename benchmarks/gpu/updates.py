"""Whole updates, in one process: the same batches move the same weights to the same place on both devices.

AdamW's first steps are about equal for every weight, so rounding turns a few whose gradient is
hardly there; what is compared is how far all weights are apart over how far they moved.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.bench import Bench, NotHere
from benchmarks.gpu.made_up import prepare, random_model, settings, trajectories
from benchmarks.gpu.packs import pack_of
from benchmarks.lab.trainee import Driver
from learners.model.load import load_model, pack_logprobs
from learners.model.reference import Reference, reads_base
from learners.optimiser import make_optimiser
from learners.settings import LearnerSettings
from learners.update.learning import Learning, make_critic
from learners.update.policy_steps import pack_loss

CPU = torch.device("cpu")
UPDATES, GAMES, GROUP = 3, 8, 4
APART, FIGURE = 1e-3, 1e-4  # share of the way moved; relative, of the first update's figures
FIGURES, LEAST = ("loss", "grad_norm"), 0.1  # a figure smaller than this is compared as if it were this
METHODS: dict[str, dict[str, Any]] = {
    "policy gradient": {},
    "ppo, grpo, 2 epochs of 2 minibatches, guarded": {
        "credit": {"method": "grpo"},
        "loss": {"kind": "ppo", "entropy": 0.01, "kl_guard": 0.02},
        "epochs": 2,
        "minibatches": 2,
    },
    "decoupled, with a reference": {"loss": {"kind": "decoupled", "kl": 0.05}},
    "poad and its critic": {"credit": {"method": "poad"}},
    "an adapter": {"lora": {"rank": 4, "targets": ["q_proj", "v_proj"]}},
}
FAR = 99.0


def check(bench: Bench) -> None:
    device, path = prepare(bench), random_model(bench.folder)
    for name, changes in METHODS.items():
        with bench.part(name):
            learner = settings(zero=0, **changes)
            (before, ours, told), (_, exact, told_exact) = (trained(path, learner, where) for where in (device, CPU))
            found = {f"weights after {UPDATES}": (apart(before, ours, exact), APART)} | {
                f"{key} of the first": (abs(told[key] - told_exact[key]) / max(abs(told_exact[key]), LEAST), FIGURE)
                for key in FIGURES
            }
            bench.all_within(name, found)
    for kind in ("policy_gradient", "ppo", "decoupled"):
        with bench.part(f"{kind} at extreme log ratios"):
            extreme(bench, path, kind, device)


def trained(
    path: Path, learner: LearnerSettings, device: torch.device
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, float]]:
    """Weights before and after, and the first update's figures."""
    learning, model = learning_of(path, learner, device)
    before = weights_of(model)
    figures = [
        learning.update(trajectories(GAMES, update, group=GROUP, listed=update == 1), version=0)
        for update in range(UPDATES)
    ]
    return before, weights_of(model), figures[0]


def learning_of(path: Path, learner: LearnerSettings, device: torch.device) -> tuple[Learning, torch.nn.Module]:
    """The learner without DeepSpeed, which only says how the weights are held."""
    if learner.lora.rank:
        try:
            import peft  # noqa: F401
        except ImportError:
            raise NotHere("peft is not installed") from None
    model = load_model(str(path), learner, seed=0).to(device)
    optimiser = make_optimiser([p for p in model.parameters() if p.requires_grad], learner)
    driver = Driver(model, optimiser)
    critic = make_critic(learner, model.get_output_embeddings().in_features, device, 0)
    reference = Reference(driver, learner, device, str(path)) if reads_base(learner) else None
    return Learning(driver, optimiser, learner, 0.9, device, 0, 0, critic, reference), model


def weights_of(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {
        name: weight.detach().cpu().double().numpy().copy()
        for name, weight in model.named_parameters()
        if weight.requires_grad
    }


def apart(before: dict[str, np.ndarray], ours: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> float:
    """Over all weights, as a share of how far they moved; infinite if they did not."""
    moved = sum(float(np.abs(exact[name] - before[name]).sum()) for name in exact)
    return sum(float(np.abs(exact[name] - ours[name]).sum()) for name in exact) / moved if moved else math.inf


def extreme(bench: Bench, path: Path, kind: str, device: torch.device) -> None:
    """Tokens that the weights at the start of the update, the sampler and the reference made e^99 times
    more or less likely than those of now do."""
    learner = settings(loss={"kind": kind, "kl": 0.01})
    model, batch = load_model(str(path), learner, seed=0).to(device), trajectories(6, 3)
    model.train()
    for sign in (1.0, -1.0):
        pack = pack_of(batch)
        with torch.no_grad():
            now = pack_logprobs(model, pack, 1.0, device).float().cpu().numpy()
        pack.old_logprobs = pack.sampler_logprobs = pack.reference = (now - sign * FAR).astype(np.float32)
        pack.on_policy = np.zeros(len(now), bool)
        model.zero_grad()
        outcome, _ = pack_loss(model, pack, learner, 1.0, 1.0, device)
        outcome.loss.backward()
        finite = all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)
        holds = finite and bool(torch.isfinite(outcome.loss.detach()))
        bench.judge(
            holds, f"{kind} at a log ratio of {sign * FAR:+.0f}: finite", f"loss {float(outcome.loss.detach()):.3g}"
        )
