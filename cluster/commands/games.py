"""`parley games`: what can be played."""

from __future__ import annotations

import argparse
import inspect
import json
import textwrap
from collections.abc import Sequence
from typing import Any

from cluster.commands.command import Command, gives_json
from cluster.errors import ConfigError
from cluster.record.manner import busy
from cluster.record.run_folder import to_json
from envs.game import hook
from envs.options import Option, options_of
from envs.registry import game_class, game_names, make_game
from envs.well_formed import is_a_game


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "game", nargs="?", default="", metavar="GAME", help="only this one: rules, options, players, trials"
    )
    gives_json(parser)


def run(asked: argparse.Namespace) -> None:
    if asked.json:
        named = [asked.game] if asked.game and known(asked.game) else game_names()
        with busy("looking at the games"):
            found = [as_plain(name) for name in named]
        print(to_json(found[0] if asked.game else found), end="")
        return
    if asked.game:
        describe(asked.game)
        return
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from cluster.record.terminal import page

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("game", "seats", "turns at most", "scripted players", "about"):
        table.add_column(column, no_wrap=column == "game")
    with busy("looking at the games"):
        for name in game_names():
            table.add_row(*map(escape, _row(name)))
    page().print(table)
    print("parley games NAME    its rules, options, players and trials\nparley play NAME     sit down and play")


def _row(name: str) -> tuple[str, ...]:
    try:
        game, players = make_game(name), game_class(name).players()
    except ValueError as error:  # it needs an option or a package, and says which
        return name, "", "", "", str(error)
    return name, ", ".join(game.seats), str(game.horizon), ", ".join(sorted(players)), about(game_class(name))


def about(game: type) -> str:
    """The first sentence of its rules, without its title."""
    first = " ".join(rules_of(game).split()).partition(". ")[0].rstrip(".")
    return first.partition(": ")[2] or first


def plain(option: Option) -> dict[str, Any]:
    return {"about": option.meaning} | ({} if option.needed else {"default": json.loads(written(option))})


def as_plain(name: str) -> dict[str, Any]:
    """What `parley games` shows of it; `missing` is the option or package that it needs."""
    found: dict[str, Any] = {"name": name}
    try:
        made_by = game_class(name)
        found |= {"about": about(made_by), "options": {each.name: plain(each) for each in options_of(made_by)}}
        found["players"] = dict(players_of(made_by))
        found["trials"] = {trial: episodes for trial, episodes, _ in trial_rows(made_by)}
        game = make_game(name)
    except ValueError as error:
        return found | {"missing": str(error)}
    return found | {"seats": list(game.seats), "horizon": game.horizon}


def describe(name: str) -> None:
    made_by = known(name)
    print(f"{name}\n{textwrap.indent(rules_of(made_by), '  ')}\n")
    options = [(each.name, written(each), each.meaning) for each in options_of(made_by)]
    show("options (game.options.NAME=VALUE)", options)
    show("players", players_of(made_by))
    trials = [(name, f"{episodes} episodes", ", ".join(settings)) for name, episodes, settings in trial_rows(made_by)]
    show("trials (parley evaluate ... --trials)", trials)


def show(title: str, rows: Sequence[Sequence[str]]) -> None:
    """In columns, the last of which is wrapped."""
    from cluster.record.terminal import page

    print(title)
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for *first, last in rows:
        indent = "  " + "".join(f"{cell:<{width}}  " for cell, width in zip(first, wide, strict=True))
        most = max(page().width, len(indent) + 40)
        print(textwrap.fill(last, most, initial_indent=indent, subsequent_indent=" " * len(indent)) or indent.rstrip())


# what docs/reference/games.md tells of every game, too


def rules_of(game: type) -> str:
    """What the class says of itself, or else its module."""
    return inspect.cleandoc(game.__doc__ or inspect.getmodule(game).__doc__ or "")


def written(option: Option) -> str:
    """Its default, as a recipe would have it."""
    return "(needed)" if option.needed else json.dumps(option.default, default=str)


def players_of(game: type) -> list[tuple[str, str]]:
    """(name, strength)"""
    return [(name, " ".join((inspect.getdoc(each) or "").split())) for name, each in sorted(game.players().items())]


def trial_rows(game: type) -> list[tuple[str, int, list[str]]]:
    """(name, episodes, who plays the other seats and options)"""
    return [
        (
            trial.name,
            trial.episodes,
            [f"{seat} is {player}" for seat, player in trial.players.items()]
            + [f"{option}={value}" for option, value in trial.options.items()],
        )
        for trial in hook(game, "trials")()
    ]


def known(name: str) -> type:
    try:
        is_a_game(name, made_by := game_class(name))
        return made_by
    except ValueError as error:
        raise ConfigError(str(error)) from error


COMMAND = Command("games", "list the games, or everything about one", run, arguments)
