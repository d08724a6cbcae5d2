"""`parley evaluate`: held-out games with a run's policy or any model."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from cluster.commands.command import Command, takes_overrides
from cluster.errors import CheckpointError, ConfigError
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record import checkpoints
from cluster.record.run_folder import RunFolder, existing, read_config

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


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number above 0, not {text!r}")
    return int(text)


def run(asked: argparse.Namespace) -> None:
    target = Path(asked.target).expanduser()
    if (target / "checkpoints").is_dir() or (target / "config.yaml").is_file():
        config, model = evaluated_run(target, asked)
    else:
        if asked.checkpoint != "latest":
            raise ConfigError(f"--checkpoint chooses among a run's checkpoints, but {asked.target!r} is no run folder")
        config = load_recipe(asked.recipe, [*asked.overrides, f"model.path={json.dumps(asked.target)}"])
        config.name, model = "evaluate", config.model.path
    if asked.trials is not None:
        evaluate_trials(asked, config, model)
        return
    if asked.episodes is not None:
        raise ConfigError("--episodes is for --trials; without it give evaluation.episodes=N")
    with RunFolder.create(config) as folder:
        from cluster.record.terminal import evaluation_lines
        from cluster.run import session

        result = session.evaluate(config, model, folder)
        folder.write_summary(result)
        print("\n".join(evaluation_lines(result, folder)))


def evaluate_trials(asked: argparse.Namespace, config: RunConfig, model: str) -> None:
    from cluster.run.trials import chosen_trials

    try:
        trials = chosen_trials(config, asked.trials, asked.episodes)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    with RunFolder.create(config) as folder:
        from cluster.record.terminal import display_path, page, trials_table
        from cluster.run import session

        result = session.evaluate_trials(config, model, folder, trials)
        folder.write_summary(result)
        page().print(trials_table(result))
        print(f"summary.json, episodes.jsonl and transcripts in {display_path(folder.path)}")


def evaluated_run(run: Path, asked: argparse.Namespace) -> tuple[RunConfig, str]:
    """A run's own config, and the policy of the checkpoint asked for. The evaluation gets
    a folder of its own beside the run's, so it can look at a run that is still training."""
    if asked.recipe:
        raise ConfigError("--recipe is for evaluating a model; a run is evaluated with its own config.yaml")
    config = read_config(existing(run), asked.overrides)
    config.name, config.output = f"{run.resolve().name}-evaluation", str(run.resolve().parent)
    folder = run / "checkpoints"
    if asked.checkpoint in ("latest", "best"):
        chosen = getattr(checkpoints, asked.checkpoint)(folder)
    else:
        chosen = {
            str(checkpoints.CheckpointStore.update_of(path)): path for path in checkpoints.all_checkpoints(folder)
        }.get(asked.checkpoint)
    if chosen is None:
        there = ", ".join(path.name for path in checkpoints.all_checkpoints(folder)) or "none"
        raise CheckpointError(f"{run} holds no complete checkpoint {asked.checkpoint!r}; it has: {there}")
    if damage := checkpoints.damage_of(chosen):
        raise CheckpointError(f"checkpoint {chosen} is damaged: {damage}")
    return config, str((chosen / "policy").resolve())


ABOUT = "play held-out games with a run's policy or any model"
COMMAND = Command("evaluate", ABOUT, run, arguments, EXAMPLES)
