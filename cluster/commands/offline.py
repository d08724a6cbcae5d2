"""`parley offline`: the whole pipeline on files, or one stage of it.

    parley offline run RECIPE|FOLDER     a new work folder, or one that is there already
    parley offline STAGE FOLDER          one stage
    parley offline status FOLDER         what is done, and what would be done again and why

What can be wrong with a recipe, a folder or a file's name is said before torch, vllm or ray are imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from cluster.api import words_of
from cluster.commands.command import Command, says_how_much
from cluster.errors import ConfigError, RunFolderError
from cluster.recipe.config import RunConfig
from cluster.recipe.reading import load_recipe
from cluster.record.manner import busy
from cluster.record.now import Now
from cluster.record.run_folder import RunFolder, existing, read_config, to_json, versions, write_whole
from envs.registry import game_class, make_game
from learners.credit.method import CREDIT
from learners.loss.loss import LOSS
from reward_service.shaper import SHAPERS

STAGES = {
    "collect": "play games with the policy and record them",
    "embed": "read games, embed each distinct utterance",
    "cluster": "the tree of intentions, and its labels at every k",
    "choose": "SplitScore of every k, and the k that is used",
    "label": "write the games with their intentions",
    "aggregate": "what each turn is worth; the training set",
    "tokenize": "the training set in the policy's tokens",
    "train": "train the policy on it",
    "evaluate": "held-out games with the trained policy",
}

EXAMPLES = """\
examples:
  parley offline run recipes/offline/tiny_bargaining.yaml
  parley offline run recipes/offline/tiny_bargaining.yaml offline.games=100 --folder runs/mine
  parley offline run runs/mine                                go on after a stop
  parley offline run recipes/offline/llama_8b.yaml --input llama3-8b_negotiation_msgs.jsonl --until aggregate
  parley offline choose runs/mine reward.shaper.intentions.space.granularity.epsilon=0.1
  parley offline status runs/mine
"""


def arguments(top: argparse.ArgumentParser) -> None:
    plain = argparse.RawDescriptionHelpFormatter
    actions = top.add_subparsers(title="what to do", metavar="ACTION", required=True)
    overrides = {"nargs": "*", "default": [], "metavar": "key=value", "help": "settings by dotted key; values are YAML"}

    made = actions.add_parser("run", help="every stage of every iteration", epilog=EXAMPLES, formatter_class=plain)
    made.add_argument("target", metavar="RECIPE|FOLDER", help="a recipe, or a work folder to go on with")
    made.add_argument("overrides", **overrides)
    made.add_argument("--input", metavar="FILE", help="recorded games to start from, instead of collecting")
    made.add_argument("--folder", metavar="FOLDER", help="work folder; default: a new one in `output`")
    made.add_argument("--until", metavar="STAGE", choices=list(STAGES), help="stop after this stage of iteration 1")
    says_how_much(made)
    made.set_defaults(command=run)

    made = actions.add_parser("status", help="which stages are done, and why others would be done again")
    made.add_argument("folder", metavar="FOLDER")
    made.add_argument("overrides", **overrides)
    made.set_defaults(command=status)

    for stage, text in STAGES.items():
        made = actions.add_parser(
            stage, help=text, description=text[:1].upper() + text[1:] + ".", formatter_class=plain
        )
        made.add_argument("folder", metavar="FOLDER", help="work folder")
        made.add_argument("overrides", **overrides)
        made.add_argument("--iteration", type=int, metavar="N", help="default: the first in which it is not done")
        says_how_much(made)
        made.set_defaults(command=one_stage, stage=stage)


def run(asked: argparse.Namespace) -> None:
    target = Path(asked.target).expanduser()
    if target.is_dir():
        if asked.folder:
            raise ConfigError(f"--folder is for a recipe; {asked.target} is a work folder itself")
        config, path = config_of(target, asked.overrides, asked.input), target
    else:
        overrides = [*asked.overrides, *_input(asked.input)]
        path = Path(asked.folder).expanduser() if asked.folder else None
        config = checked(load_recipe(asked.target, overrides))
    with _open(config, path) as folder:
        folder.write_config(config)
        try:
            pipeline = _pipeline()
            with folder.telling_its_end(f"parley offline run {folder.path}"):
                pipeline.run(config, folder, asked.until or "")
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(f"go on with: parley offline run {folder.path}") from stop


def one_stage(asked: argparse.Namespace) -> None:
    config = config_of(Path(asked.folder), asked.overrides)
    with RunFolder(existing(asked.folder)) as folder, Now(folder.now).alive():
        folder.write_config(config)
        _pipeline().run_stage(config, folder, asked.stage, asked.iteration)


def status(asked: argparse.Namespace) -> None:
    config = config_of(Path(asked.folder), asked.overrides)
    print("\n".join(_pipeline().status(config, existing(asked.folder))))


def _pipeline() -> ModuleType:
    with busy("starting"):
        from cluster.offline import pipeline
    return pipeline


def config_of(path: Path, overrides: Sequence[str], file: str | None = None) -> RunConfig:
    """Of a work folder, under overrides."""
    return checked(read_config(path, [*overrides, *_input(file)]))


def _input(file: str | None) -> list[str]:
    return [] if file is None else words_of({"offline.input": file})


def _open(config: RunConfig, path: Path | None) -> RunFolder:
    """The work folder, made if it is not there; a name of its own if none is given."""
    if path is None:
        folder = RunFolder.create(config.model_copy(update={"name": f"{config.name}-offline"}))
        for unused in (folder.checkpoints, folder.tensorboard):
            unused.rmdir()
        return folder
    if path.is_dir() and any(path.iterdir()) and not (path / "config.yaml").is_file():
        raise RunFolderError(f"{str(path)!r} holds something else: a work folder is empty, or has a config.yaml")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"cannot create work folder {str(path)!r}: {error.strerror}") from error
    folder = RunFolder(path)
    write_whole(folder.path / "versions.json", to_json(versions()))
    return folder


def checked(config: RunConfig) -> RunConfig:
    """What only an offline run asks of a config."""
    offline, game = config.offline, make_game(config.game.name, config.game.options)
    if len(game.seats) > 2:
        raise ConfigError(f"game.name: {game.name} has {len(game.seats)} seats; recorded games have one or two players")
    if all(config.game.players.get(seat, "policy") != "policy" for seat in game.seats):
        raise ConfigError("game.players leaves no seat to the policy: nothing would be trained")
    if offline.input:
        path = Path(offline.input).expanduser()
        if not path.is_file():
            raise ConfigError(f"offline.input: no file at {offline.input!r}")
        offline.input = str(path.resolve())
    if offline.context > config.learner.tokens_per_micro_batch:
        raise ConfigError(
            f"offline.context={offline.context} does not fit into learner.tokens_per_micro_batch="
            f"{config.learner.tokens_per_micro_batch}: a game is trained on in one piece"
        )
    from reward_service.shapers.aria import Aria  # here: it needs scipy, which the base installation lacks

    if not isinstance(config.reward.shaper, Aria):
        raise ConfigError(
            f"reward.shaper={SHAPERS.name_of(config.reward.shaper)}: offline, turns are worth what their intentions "
            "earned; set reward.shaper=aria"
        )
    if config.reward.shaper.gives != "advantage":
        raise ConfigError(
            f"reward.shaper.gives={config.reward.shaper.gives}: offline, turns are worth what their intentions earned; "
            "leave it at advantage"
        )
    method = CREDIT.name_of(config.learner.credit)
    if method != "reinforce":
        raise ConfigError(
            f"learner.credit.method={method}: offline, turns are worth what their intentions "
            "earned (reward.shaper.intentions.aggregate); leave it at reinforce"
        )
    kind = LOSS.name_of(config.learner.loss)
    if config.learner.loss.asks_sampler:
        raise ConfigError(
            f"learner.loss.kind={kind} compares the policy with whoever played, which recorded games do not tell: give "
            "learner.loss.kind=likelihood"
        )
    if config.learner.router_replay:
        raise ConfigError(
            "learner.router_replay=true replays the experts that an engine chose, and recorded games have none: set it "
            "to false"
        )
    if config.learner.mask_cut_off:
        raise ConfigError("learner.mask_cut_off=true: recorded games do not tell which were cut off; set it to false")
    if offline.rival:
        _check_rival(config, len(game.seats))
    return config


def _check_rival(config: RunConfig, seats: int) -> None:
    rival = config.offline.rival
    kind, _, who = rival.partition(":")
    known = {
        "scripted": game_class(config.game.name).players(),
        "frozen": config.rollout.frozen,
        "endpoint": config.rollout.endpoints,
    }
    if seats != 2:
        raise ConfigError(f"offline.rival={rival}: {config.game.name} has one seat, so nobody plays against the policy")
    if who not in known.get(kind, ()):
        names = [f"{kind}:{name}" for kind, names in known.items() for name in sorted(names)]
        raise ConfigError(f"offline.rival={rival}: no such player; there are: {', '.join(names)}")


COMMAND = Command("offline", "train on recorded games: ARIA from files to files", None, arguments, EXAMPLES)
