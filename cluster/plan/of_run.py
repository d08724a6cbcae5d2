"""The plan of a run: the models are read, the rest is `decide`."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from pathlib import Path

from cluster.plan.decide import Plan, Side, plan
from cluster.plan.machine import Machine
from cluster.plan.shape import ModelShape, ShapeUnknown, model_shape, shape_of_run
from cluster.recipe.config import RunConfig


def plan_run(
    config: RunConfig,
    machine: Machine,
    side: Side = "both",
    model: Path | str | None = None,
    may_change: Set[str] | None = None,
) -> Plan:
    """`model`: folder of the policy, where it is not the one that the config names. `may_change` as in `plan`."""
    notes: list[str] = []
    if side != "play" and (why := config.learner.no_step_within(config.updates)):
        notes.append(f"the policy stays as it is: updates={config.updates} {why}")
    frozen: dict[str, ModelShape] = {}
    shape = None
    try:
        shape = shape_of_run(config, model)
    except ShapeUnknown as unknown:
        notes.append(f"memory is not planned: {unknown}")
    for name, folder in config.rollout.frozen.items() if side != "learn" else ():
        try:
            frozen[name] = model_shape(folder)
        except ShapeUnknown as unknown:
            notes.append(f"rollout.frozen.{name} is left out of the memory: {unknown}")
    return replace(plan(config, machine, shape, side, frozen, may_change), notes=tuple(notes))
