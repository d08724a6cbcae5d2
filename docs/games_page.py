"""The page docs/reference/games.md: every game, from what its module, its class and its players say of themselves.

It needs none of the packages of worlds and of other libraries: what a game is can be read without making one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cluster.commands.games import players_of, rules_of, trial_rows, written
from envs.options import options_of
from envs.registry import DOORS, GAMES, WORLDS, game_class

GAMES_PAGE = """\
# Every game

Rules, options and what they mean, scripted players and trials of each game, as `parley games NAME` prints them.
"""

PARTS: dict[str, tuple[str, Mapping[str, str]]] = {
    "Games": ("[Longer pages](../games/index.md) tell of some of them.", GAMES),
    "Worlds": ("Each needs a package of the extra `worlds`: `make setup WORLDS=1`.", WORLDS),
    "Other libraries": ("Each is as many games as [its library](../how-to/doors.md) has.", DOORS),
}


def games_page() -> str:
    return "\n".join([GAMES_PAGE, *(line for title, part in PARTS.items() for line in section(title, *part))])


def section(title: str, about: str, games: Mapping[str, str]) -> Iterator[str]:
    if games:
        yield f"## {title}\n\n{about}\n"
    for name in sorted(games):
        yield from of_game(name, game_class(name))


def of_game(name: str, game: type) -> Iterator[str]:
    yield f"### {name}\n\n```text\n{rules_of(game)}\n```\n"
    options = [(f"`{each.name}`", f"`{written(each)}`", each.meaning) for each in options_of(game)]
    yield from table(("option", "default", ""), options)
    yield from table(("player", ""), [(f"`{player}`", strength) for player, strength in players_of(game)])
    rows = [(trial, str(episodes), ", ".join(settings)) for trial, episodes, settings in trial_rows(game)]
    yield from table(("trial", "episodes", ""), rows)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    if rows:
        lines = [head, ("---",) * len(head), *(map(cell, row) for row in rows)]
        yield "\n".join([*(f"| {' | '.join(line)} |" for line in lines), ""])


def cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("<", "&lt;")
