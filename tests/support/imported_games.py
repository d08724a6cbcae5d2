"""How games of other libraries are played in tests."""

from __future__ import annotations

from envs.doors.inward.imported import ImportedGame
from envs.game import Game


def cast(game: ImportedGame, player: str, seed: int) -> dict:
    players = {seat: game.players()[player](**game._options()) for seat in game.seats}
    for number, each in enumerate(players.values()):
        each.reset(seed * 10 + number)
    return players


def turns(game: Game, players: dict):
    while (seat := game.seat) is not None:
        seen, listed = game.observe(), game.actions()
        said = players[seat].reply(seen, listed)
        yield seat, seen, listed, said, game.step(said)


def play(game: ImportedGame, player: str, seed: int) -> list[tuple]:
    players = cast(game, player, seed)
    game.reset(seed)
    return list(turns(game, players))


def mean_outcome(game: ImportedGame, player: str, games: int) -> float:
    total = 0.0
    for seed in range(games):
        play(game, player, seed)
        total += game.outcome()[game.seats[0]]
    return total / games
