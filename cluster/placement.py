"""What a run asks of Ray, known before anything starts.

Every rollout worker and every learner rank is one bundle. `bundles` is what `--dry-run`
prints; `check` compares it with what the cluster has, so that a run that can never be
placed says so at once instead of waiting.
"""

from __future__ import annotations

from cluster.config import RunConfig
from cluster.errors import ConfigError


def bundles(config: RunConfig) -> list[tuple[str, dict[str, float]]]:
    """(who, resources) for each actor that reserves something."""
    rollout, learner = config.rollout, config.learner
    wanted = [
        (f"rollout worker {i}", {"CPU": rollout.cpus_per_worker, "GPU": rollout.gpus_per_worker})
        for i in range(rollout.workers)
    ]
    wanted += [
        (f"learner rank {i}", {"CPU": learner.cpus_per_rank, "GPU": learner.gpus_per_rank})
        for i in range(learner.ranks)
    ]
    return [(who, {kind: amount for kind, amount in need.items() if amount}) for who, need in wanted]


def total(config: RunConfig) -> dict[str, float]:
    summed: dict[str, float] = {}
    for _, need in bundles(config):
        for kind, amount in need.items():
            summed[kind] = summed.get(kind, 0.0) + amount
    return summed


def check(config: RunConfig, available: dict[str, float]) -> None:
    for kind, amount in total(config).items():
        have = available.get(kind, 0.0)
        if amount > have:
            raise ConfigError(
                f"the run needs {amount:g} {kind}s (rollout.workers={config.rollout.workers}, "
                f"learner.ranks={config.learner.ranks}) but the cluster has {have:g}: lower them, or "
                f"rollout.{kind.lower()}s_per_worker / learner.{kind.lower()}s_per_rank"
            )


def transport(config: RunConfig, nodes: int) -> str:
    """The weight transport that `learner.sync.transport: auto` stands for."""
    asked = config.learner.sync.transport
    if asked != "auto":
        return asked
    if config.learner.lora.rank:
        return "adapter"
    if config.learner.gpus_per_rank and config.rollout.gpus_per_worker:
        return "nccl"
    return "shared_memory" if nodes == 1 else "object_store"


def coarser_dtype(config: RunConfig) -> str:
    """The less exact of the two sides' types: what the parity tolerance follows."""

    def resolve(dtype: str, gpus: float) -> str:
        return dtype if dtype != "auto" else ("bfloat16" if gpus else "float32")

    sides = {
        resolve(config.learner.dtype, config.learner.gpus_per_rank),
        resolve(config.rollout.engine.dtype, config.rollout.gpus_per_worker),
    }
    return "float32" if sides == {"float32"} else min(sides - {"float32"})
