"""`parley games`: what can be played."""

from __future__ import annotations

import argparse
import inspect
import textwrap

from cluster.commands.command import Command
from cluster.errors import ConfigError
from envs.registry import game_class, game_names, make_game, trials_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "game", nargs="?", default="", metavar="GAME", help="only this one: rules, options, players, trials"
    )


def run(asked: argparse.Namespace) -> None:
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
        table.add_row(
            name, ", ".join(game.seats), str(game.horizon), ", ".join(sorted(players)), about(game_class(name))
        )
    page().print(table)
    print("parley games NAME    its rules, options, players and trials\nparley play NAME     sit down and play")


def about(game: type) -> str:
    """The first sentence of what its module says of itself."""
    text = " ".join((inspect.getmodule(game).__doc__ or "").split())
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


def known(name: str) -> type:
    try:
        return game_class(name)
    except ValueError as error:
        raise ConfigError(str(error)) from error


COMMAND = Command("games", "list the games, or everything about one", run, arguments)
