"""Names to games. A new game is one file and one line here; a third party registers
its own under the entry point group `parley.games`, as `name = module:Class`. A recipe may
name a class as it is, too: `game.name=module:Class`.

A game class takes its options as keyword arguments and has a class method
`players() -> dict[str, type[Player]]`, its scripted players by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points

from envs.coroutines import Blocking, has_coroutines
from envs.game import Game, Player, Trial, hook
from envs.kinds import class_at
from envs.options import options_of, takes_any
from envs.well_formed import is_a_game

GAMES = {
    "bargaining": "envs.glee.bargaining:Bargaining",
    "car_dealer": "envs.lmrl.car_dealer.game:CarDealer",
    "case_study": "envs.case_study:CaseStudy",
    "data_science": "envs.data_science.game:DataScience",
    "guess_my_city": "envs.guess_my_city.game:GuessMyCity",
    "maze": "envs.lmrl.maze:Maze",
    "negotiation": "envs.glee.negotiation:Negotiation",
    "overcooked": "envs.overcooked.game:Overcooked",
    "parrot": "envs.parrot:Parrot",
    "persuasion": "envs.glee.persuasion.game:Persuasion",
    "text_navigation": "envs.lmrl.text_navigation:TextNavigation",
    "tools": "envs.tools.game:Tools",
    "twenty_questions": "envs.twenty_questions.game:TwentyQuestions",
    "virtualhome": "envs.virtualhome.game:VirtualHome",
    "webshop": "envs.worlds.webshop.game:WebShop",
    "wordle": "envs.lmrl.wordle:Wordle",
}

# Ways in: each is as many games as its library has, and an option says which.
DOORS = {
    "dataset": "envs.dataset:Dataset",
    "gymnasium": "envs.doors.inward.gymnasium:GymnasiumGame",
    "openenv": "envs.doors.inward.openenv:OpenEnvGame",
    "pettingzoo": "envs.doors.inward.pettingzoo:PettingZooGame",
    "textarena": "envs.doors.inward.textarena:TextArenaGame",
    "textworld": "envs.doors.inward.textworld:TextWorldGame",
    "verifiers": "envs.doors.inward.verifiers:VerifiersGame",
}


# Worlds of others, each from its own package: the extra `worlds`.
WORLDS = {
    "alfworld": "envs.worlds.alfworld.game:ALFWorld",
    "babyai": "envs.worlds.babyai.game:BabyAI",
    "chess": "envs.lmrl.chess.game:Chess",
    "mcp": "envs.tools.served:ServedTools",
    "nethack": "envs.worlds.nethack.game:NetHack",
    "open_spiel": "envs.worlds.open_spiel.game:OpenSpielGame",
    "scienceworld": "envs.worlds.scienceworld.game:ScienceWorldGame",
    "textworld_express": "envs.worlds.textworld_express.game:TextWorldExpressGame",
}


OWN = "a class of your own is module:Class"


def game_names() -> list[str]:
    return sorted({*GAMES, *DOORS, *WORLDS, *(point.name for point in entry_points(group="parley.games"))})


def is_game(name: str) -> bool:
    """Those of others are looked for last, for that reads every installed package."""
    return name in GAMES or name in DOORS or name in WORLDS or name in game_names()


def game_class(name: str) -> type:
    known = GAMES | DOORS | WORLDS
    if ":" in name:  # in a file of the user's
        return class_at(name)
    if name in known:
        module, _, attribute = known[name].partition(":")
        with _packages_of(name):
            return getattr(import_module(module), attribute)
    for point in entry_points(group="parley.games"):
        if point.name == name:
            return point.load()
    raise ValueError(f"unknown game {name!r}; known: {', '.join(game_names())}; {OWN}")


def make_game(name: str, options: dict | None = None, blocking: bool = True) -> Game:
    """`blocking`: a game of coroutines is one whose calls return when they are over."""
    made_by, options = game_class(name), options or {}
    known = options_of(made_by)
    unknown = [key for key in options if key not in {each.name for each in known}]
    if unknown and not takes_any(made_by):
        raise ValueError(
            f"game {name!r} has no option {unknown[0]!r}; it has: {', '.join(each.name for each in known)}"
        )
    if missing := next((each for each in known if each.needed and each.name not in options), None):
        meaning = f", {missing.meaning}" if missing.meaning else ""
        raise ValueError(f"game {name!r} needs the option {missing.name!r}{meaning}: game.options.{missing.name}=...")
    is_a_game(name, made_by)
    with _packages_of(name):
        game = made_by(**options)
    is_a_game(name, game)
    return Blocking(game) if blocking and has_coroutines(game) else game


@contextmanager
def _packages_of(name: str) -> Iterator[None]:
    """What a game needs and the installation lacks is one line, with the way to get it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if name not in GAMES | DOORS | WORLDS:
            raise  # of somebody else's
        extra = "doors" if name in DOORS else "worlds" if name in WORLDS else "cpu"
        raise ValueError(
            f"game {name!r} needs the package {missing.name!r}, which is not installed: "
            f"pip install -e '.[{extra}]' in Parley's folder"
        ) from missing


def make_player(name: str, player: str, options: dict | None = None) -> Player:
    """A scripted player of game `name`, given the same options as the game."""
    players = game_class(name).players()
    if player not in players:
        raise ValueError(
            f"game {name!r} has no scripted player {player!r}; it has: {', '.join(sorted(players)) or 'none'}"
        )
    return players[player](**(options or {}))


def trials_of(name: str) -> list[Trial]:
    """How game `name` is evaluated: its own trials, or 200 episodes of its defaults."""
    return hook(game_class(name), "trials")()
