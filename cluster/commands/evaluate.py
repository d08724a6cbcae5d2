"""`parley evaluate`: held-out games with a run's policy or any model."""

from __future__ import annotations

import argparse

from cluster.api import evaluated, measure
from cluster.commands.command import Command, gives_json, positive, says_how_much, takes_overrides

EXAMPLES = """\
examples:
  parley evaluate runs/demo-20260101-120000 evaluation.episodes=1000
  parley evaluate runs/demo-20260101-120000 --checkpoint best
  parley evaluate Qwen/Qwen3-0.6B --recipe recipes/demo.yaml
  parley evaluate embedded --recipe recipes/demo.yaml
  parley evaluate runs/bargaining-20260101-120000 --trials
  parley evaluate Qwen/Qwen3-0.6B game.name=bargaining --trials 'alice vs *' --episodes 240
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="RUN|MODEL", help="run folder, model folder, Hugging Face name, or 'embedded'"
    )
    takes_overrides(parser)
    parser.add_argument("--recipe", metavar="FILE", help="settings for a model that belongs to no run")
    parser.add_argument(
        "--checkpoint", default="latest", metavar="WHICH", help="of a run: latest (default), best, or an update"
    )
    parser.add_argument(
        "--trials",
        nargs="?",
        const="*",
        metavar="PATTERN",
        help="the game's own evaluation: every task, opponent and role, or those whose names match",
    )
    parser.add_argument(
        "--episodes", type=positive, metavar="N", help="of each trial, instead of the game's own number"
    )
    gives_json(parser)
    says_how_much(parser)


def run(asked: argparse.Namespace) -> None:
    config, model = evaluated(asked.target, asked.overrides, asked.recipe, asked.checkpoint)
    done = measure(config, model, asked.trials, asked.episodes)
    from cluster.record.run_folder import to_json
    from cluster.record.terminal import display_path, evaluation_lines, page, trials_table

    if asked.json:
        print(to_json({"folder": str(done.folder), **done.summary}), end="")
        return
    if asked.trials is None:
        print("\n".join(evaluation_lines(done.summary, done.folder)))
        return
    page().print(trials_table(done.summary))
    print(f"summary.json, episodes.jsonl and transcripts in {display_path(done.folder)}")


ABOUT = "play held-out games with a run's policy or any model"
COMMAND = Command("evaluate", ABOUT, run, arguments, EXAMPLES)
