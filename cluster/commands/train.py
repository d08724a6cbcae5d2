"""`parley train`: a new run, or what it would be."""

from __future__ import annotations

import argparse

from cluster.api import start, start_and_keep_going
from cluster.commands.command import Command, keeps_going, says_how_much, takes_overrides
from cluster.errors import ConfigError
from cluster.plan.lines import lines
from cluster.plan.machine import described, there
from cluster.plan.of_run import plan_run
from cluster.recipe.overruled import overruled
from cluster.recipe.reading import load_recipe, to_yaml

EXAMPLES = """\
examples:
  parley train demo
  parley train recipes/demo.yaml rollout.workers=2 rollout.cpus_per_worker=0.5
  parley train recipes/games/virtualhome.yaml recipes/credit/poad.yaml recipes/gpu/1x80.yaml
  parley train recipes/demo.yaml model.path=Qwen/Qwen3-0.6B learner.lora.rank=8 learner.learning_rate=1e-5
  parley train recipes/demo.yaml 'learner.betas=[0.9, 0.95]' --dry-run
  parley train recipes/games/negotiation.yaml recipes/gpu/8x80.yaml --dry-run --machine 8x80
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="YAML file, or name of a recipe of Parley: demo, bargaining, ...",
    )
    takes_overrides(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the whole config, and who computes where in how much memory, on this machine or on the cluster at "
        "RAY_ADDRESS; start nothing",
    )
    keeps_going(parser)
    says_how_much(parser)
    parser.add_argument(
        "--machine",
        metavar="M",
        help="with --dry-run: plan for cpu, 1x24 (a card of 24 GiB), 8x80, 2x8x80 (nodes x cards)",
    )


def run(asked: argparse.Namespace) -> int | None:
    from cluster.run.asked import check_online

    config = load_recipe(asked.recipe, asked.overrides)
    check_online(config)
    if asked.machine is not None and not asked.dry_run:
        raise ConfigError("--machine is for --dry-run: a run takes the machine that it finds")
    if asked.dry_run:
        machine = described(asked.machine) if asked.machine is not None else there()
        print(to_yaml(config), end="", flush=True)
        plan = plan_run(config, machine)
        print("\n".join(["", *(f"# {line}".rstrip() for line in (*overruled(asked.overrides), *lines(plan)))]))
        return None
    for line in overruled(asked.overrides):
        print(line)
    if asked.keep_going:
        return start_and_keep_going(config)
    start(config)
    return None


COMMAND = Command("train", "train a policy as a recipe says", run, arguments, EXAMPLES)
