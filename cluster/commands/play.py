"""`parley play`: a game at the terminal, without Ray or an engine."""

from __future__ import annotations

import argparse
import random
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.commands.command import Command
from cluster.commands.games import known
from cluster.errors import ConfigError, ParleyError, RunError
from cluster.recipe.reading import merge, parse_override
from cluster.record import checkpoints
from envs.game import Game, Player
from envs.outside import OutsideError
from envs.registry import make_game, make_player
from envs.well_formed import told

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """\
examples:
  parley play twenty_questions
  parley play bargaining --seat bob --against equilibrium rounds=6
  parley play twenty_questions --watch expert --seed 7
  parley play bargaining --against policy:runs/bargaining-20260101-120000

while you play: help, rules, history, undo, quit
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("game", metavar="GAME", help="name of a game, see `parley games`")
    parser.add_argument("overrides", nargs="*", default=[], metavar="option=value", help="options of the game")
    parser.add_argument("--seat", metavar="SEAT", help="where you sit; default: the first seat")
    parser.add_argument(
        "--against", default="mediocre", metavar="PLAYER", help="who sits elsewhere: a scripted player, or policy:PATH"
    )
    parser.add_argument("--watch", metavar="PLAYER", help="sit nowhere: this player has every seat")
    parser.add_argument("--seed", type=int, metavar="N", help="which game; default: any")


def run(asked: argparse.Namespace) -> None:
    from rich.console import Console

    from cluster.commands.terminal_game import Terminal

    console = Console()
    known(asked.game)
    options = reduce(merge, map(parse_override, asked.overrides), {})
    with sign_of_life(console, f"making the game {asked.game}"):
        game = made(asked.game, options)
    person = None if asked.watch else asked.seat or game.seats[0]
    if person is not None and person not in game.seats:
        raise ConfigError(f"{asked.game} has no seat {person!r}; it has: {', '.join(game.seats)}")
    if person is not None and len(game.seats) == 1 and asked.against != "mediocre":
        raise ConfigError(f"--against={asked.against}: {asked.game} has one seat, and you sit there")
    others = {seat: asked.watch or asked.against for seat in game.seats if seat != person}
    players = {}
    for seat, player in others.items():
        if player.startswith("policy:") and not console.is_terminal:
            print(f"loading {player} for {seat}", flush=True)
        with sign_of_life(console, f"loading {player} for {seat}"):
            players[seat] = opponent(asked.game, player, options)
    if others and person is not None:
        print(f"against {', '.join(f'{seat}: {player}' for seat, player in others.items())}")
    if person is not None:
        import readline  # noqa: F401

        # its import alone gives the prompt editing and a history
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    try:
        Terminal(game, console, another=lambda: made(asked.game, options)).play(players, seed, person)
    except OutsideError as error:
        raise RunError(str(error)) from error
    except (ParleyError, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:  # of a game or a player that somebody else wrote
        reason = f"{type(error).__name__}: {told(error)}"
        raise RunError(f"game {asked.game!r} failed: {reason} (PARLEY_DEBUG=1 shows where)") from error
    print(f"the same game again: seed {seed}")


def made(name: str, options: dict) -> Game:
    try:
        return make_game(name, options)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except Exception as error:  # of whoever wrote the game
        raise RunError(f"{name} cannot be made: {type(error).__name__}: {told(error)}") from error


def sign_of_life(console: Console, what: str) -> AbstractContextManager:
    """A moving line on a terminal while something takes its time."""
    return console.status(what) if console.is_terminal else nullcontext()


def opponent(game: str, player: str, options: dict) -> Player:
    """A scripted player by name, or `policy:PATH`, a run folder or a model folder."""
    kind, separator, path = player.partition(":")
    if kind == "policy" and separator:
        folder = Path(path).expanduser()
        if (folder / "checkpoints").is_dir():
            newest = checkpoints.latest(folder / "checkpoints")
            if newest is None:
                raise ConfigError(f"{path} holds no complete checkpoint")
            folder = newest / "policy"
        if not (folder / "config.json").is_file():
            raise ConfigError(f"{player}: {folder} is no whole model (an adapter is merged by `parley evaluate`)")
        from actors.play.lone_player import LonePlayer
        from cluster.plan.machine import here

        try:
            return LonePlayer(folder, on_gpu=here().has_cuda)
        except (OSError, ValueError, ImportError) as error:
            raise ConfigError(f"{player} cannot be loaded: {told(error)}") from error
    try:
        return make_player(game, player.removeprefix("scripted:"), options)
    except ValueError as error:
        raise ConfigError(f"{error} (or policy:PATH, a trained one)") from error


COMMAND = Command("play", "play a game at the terminal, or watch one", run, arguments, EXAMPLES)
