"""`parley games` and `parley play`: the games by themselves, without Ray or an engine."""

from __future__ import annotations

import argparse
import inspect
import random
import textwrap
from functools import reduce
from pathlib import Path

from cluster.errors import ConfigError
from cluster.recipe.reading import merge, parse_override
from cluster.record import checkpoints
from envs.game import Game, Player
from envs.registry import game_class, game_names, make_game, make_player, trials_of


def games(asked: argparse.Namespace) -> None:
    if asked.game:
        describe(asked.game)
        return
    from rich import box
    from rich.table import Table

    from cluster.record.terminal import page

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("game", "seats", "turns at most", "scripted players", "about"):
        table.add_column(column, no_wrap=column == "game")
    for name in game_names():
        try:
            game, players = make_game(name), game_class(name).players()
        except ValueError as error:  # it needs an option or a package, and says which
            table.add_row(name, "", "", "", str(error))
            continue
        table.add_row(name, ", ".join(game.seats), str(game.horizon), ", ".join(sorted(players)), about(game))
    page().print(table)
    print("parley games NAME    its rules, options, players and trials\nparley play NAME     sit down and play")


def about(game: Game | type) -> str:
    """The first sentence of what its module says of itself."""
    text = " ".join((inspect.getmodule(game if isinstance(game, type) else type(game)).__doc__ or "").split())
    return text.partition(": ")[2].partition(". ")[0].rstrip(".") or text.partition(". ")[0]


def describe(name: str) -> None:
    made_by = known(name)
    print(f"{name}\n{textwrap.indent(inspect.getdoc(inspect.getmodule(made_by)) or '', '  ')}\n")
    print("options")
    for option in inspect.signature(made_by).parameters.values():
        print(f"  {option.name} = {'(needed)' if option.default is option.empty else repr(option.default)}")
    print("players")
    for player, played_by in sorted(made_by.players().items()):
        print(f"  {player:<12} {' '.join((inspect.getdoc(played_by) or '').split())}")
    print("trials (parley evaluate ... --trials)")
    for trial in trials_of(name):
        who = "".join(f", {seat} is {player}" for seat, player in trial.players.items())
        options = "".join(f", {option}={value}" for option, value in trial.options.items())
        print(f"  {trial.name}: {trial.episodes} episodes{who}{options}")


def play(asked: argparse.Namespace) -> None:
    from rich.console import Console

    from cluster.commands.terminal_game import Terminal

    known(asked.game)
    options = reduce(merge, map(parse_override, asked.overrides), {})
    try:
        game = make_game(asked.game, options)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    person = None if asked.watch else asked.seat or game.seats[0]
    if person is not None and person not in game.seats:
        raise ConfigError(f"{asked.game} has no seat {person!r}; it has: {', '.join(game.seats)}")
    others = {seat: asked.watch or asked.against for seat in game.seats if seat != person}
    players = {seat: opponent(asked.game, player, options) for seat, player in others.items()}
    if others and person is not None:
        print(f"against {', '.join(f'{seat}: {player}' for seat, player in others.items())}")
    if person is not None:
        import readline  # noqa: F401

        # its import alone gives the prompt editing and a history
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    Terminal(game, Console()).play(players, seed, person)
    print(f"the same game again: seed {seed}")


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
        from actors.lone_player import LonePlayer
        from cluster.plan.machine import here

        return LonePlayer(folder, on_gpu=here().has_cuda)
    try:
        return make_player(game, player.removeprefix("scripted:"), options)
    except ValueError as error:
        raise ConfigError(f"{error} (or policy:PATH, a trained one)") from error


def known(name: str) -> type:
    try:
        return game_class(name)
    except ValueError as error:
        raise ConfigError(str(error)) from error
