"""DeepSpeed's ranks in Ray actors: what one learns is what the same updates on the CPU make without DeepSpeed.

One actor hosts a rank after another, so that DeepSpeed starts once. Stages 0 to 3 and the adapter are
compared in float32, weight by weight; in bfloat16 weights are rounded each time they are read, and
what is compared is the way that all of them went.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.made_up import games, prepare, random_model, settings, trajectories
from benchmarks.gpu.updates import APART, CPU, apart, learning_of, weights_of
from benchmarks.private_ray import private_ray
from learners.settings import LearnerSettings

UPDATES, GAMES = 2, 8
ADAPTER = {"lora": {"rank": 4, "targets": ["q_proj", "v_proj"]}}
STAGES: dict[str, dict[str, Any]] = {f"ZeRO {stage}": {"zero": stage} for stage in range(4)} | {
    "ZeRO 2 and an adapter": {"zero": 2, **ADAPTER},
    "ZeRO 3 and an adapter": {"zero": 3, **ADAPTER},
}
HALF = ("ZeRO 2", "ZeRO 3")
DIRECTION = 0.9  # cosine of the ways that the weights went, in bfloat16
SECONDS = 120


def check(bench: Bench) -> None:
    prepare(bench)
    path = random_model(bench.folder)
    exact = {name: on_cpu(path, settings(**changes | {"zero": 0})) for name, changes in STAGES.items()}
    with private_ray(cpus=4), Rank(bench, path) as rank:
        for name, changes in STAGES.items():
            with bench.part(name):
                before, after = exact[name]
                found = rank.trained(**changes)
                bench.within(f"{name}, float32: weights after {UPDATES} updates", apart(before, found, after), APART)
        for name in HALF:
            with bench.part(f"{name}, bfloat16"):
                before, after = exact[name]
                found = rank.trained(dtype="bfloat16", **STAGES[name])
                bench.within(
                    f"{name}, bfloat16: cosine of the ways that weights went",
                    direction(before, found, after),
                    DIRECTION,
                    least=True,
                )


def on_cpu(path: Path, learner: LearnerSettings) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    learning, model = learning_of(path, learner, CPU)
    before = weights_of(model)
    for update in range(UPDATES):
        learning.update(trajectories(GAMES, update, version=update), version=update)
    return before, weights_of(model)


def direction(before: dict[str, np.ndarray], ours: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> float:
    ways = [np.concatenate([(side[name] - before[name]).ravel() for name in before]) for side in (ours, exact)]
    return float(ways[0] @ ways[1] / (np.linalg.norm(ways[0]) * np.linalg.norm(ways[1])))


class Host:
    """An actor that becomes one rank after another."""

    def __init__(self, path: str):
        from learners.transport.rendezvous import meeting_point

        self.path, self.meet = path, meeting_point()

    def trained(self, learner: LearnerSettings) -> tuple[str, dict[str, np.ndarray]]:
        """The device, and the weights after the updates."""
        import deepspeed

        from learners.rank import LearnerRank

        rank = LearnerRank(learner, self.path, 0.9, 0, 0, "shared_memory")
        rank.start(*self.meet)
        for update in range(UPDATES):
            rank.update(*games(GAMES, update, version=update))
            rank.version = update + 1
        named = [(name, p) for name, p in rank.engine.module.named_parameters() if p.requires_grad]
        with deepspeed.zero.GatheredParameters([p for _, p in named], enabled=learner.zero == 3):
            found = {name: p.detach().double().cpu().numpy() for name, p in named}
        return str(rank.device), found


class Rank:
    """The actor, from outside."""

    def __init__(self, bench: Bench, path: Path):
        self.bench, self.path = bench, path
        self.cards = 1.0 if bench.on_card else 0.0

    def __enter__(self) -> Rank:
        import ray

        from learners.group import environment

        variables = environment(settings(gpus_per_rank=self.cards))
        remote = ray.remote(num_cpus=0, num_gpus=self.cards, runtime_env={"env_vars": variables})
        self.host = remote(Host).remote(str(self.path))
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        ray.kill(self.host)

    def trained(self, **changes: Any) -> dict[str, np.ndarray]:
        import ray

        learner = settings(gpus_per_rank=self.cards, **changes)
        device, found = ray.get(self.host.trained.remote(learner), timeout=SECONDS)
        if not device.startswith(self.bench.device):
            raise RuntimeError(f"the rank is on {device}")
        return found
