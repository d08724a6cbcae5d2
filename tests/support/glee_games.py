"""Playing bargaining and negotiation in tests."""

from __future__ import annotations

from fractions import Fraction

from envs.game import Game, Step
from envs.glee.talks import RIVAL, SEATS
from envs.registry import make_game, make_player

OPPONENTS = ("equilibrium", "tit_for_tat", "conceding", "stubborn", "random")


def new(name: str, seed: int = 0, **options) -> Game:
    game = make_game(name, options)
    game.reset(seed)
    return game


def say(game: Game, seat: str, utterance: str) -> Step:
    """One turn, which has to be that seat's."""
    assert game.seat == seat
    return game.step(utterance)


def seat_players(name: str, alice: str, bob: str, seed: int, **options) -> dict:
    players = {seat: make_player(name, each, options) for seat, each in zip(SEATS, (alice, bob), strict=True)}
    for number, player in enumerate(players.values()):
        player.reset(2 * seed + number)
    return players


def play(name: str, alice: str, bob: str, seed: int, **options) -> tuple[Game, list[tuple[str, str, str, Step]]]:
    """A whole game; (seat, seen, said, step) of each turn."""
    game, players = new(name, seed, **options), seat_players(name, alice, bob, seed, **options)
    return game, finish(game, players)


def finish(game: Game, players: dict) -> list[tuple[str, str, str, Step]]:
    turns = []
    while (seat := game.seat) is not None:
        seen = game.observe()
        said = players[seat].reply(seen, game.actions())
        turns.append((seat, seen, said, game.step(said)))
    return turns


def earned(game: Game) -> dict[str, Fraction]:
    """Exact payoffs in cents."""
    return game._paid()


def wins(name: str, player: str, episodes: int, opponents: tuple[str, ...] = OPPONENTS) -> float:
    """Share of games won, over both roles and all of these opponents."""
    won = 0
    for opponent in opponents:
        for seat in SEATS:
            who = {seat: player, RIVAL[seat]: opponent}
            game = make_game(name)
            players = {each: make_player(name, who[each]) for each in SEATS}
            for seed in range(episodes):
                game.reset(seed)
                for number, seated in enumerate(players.values()):
                    seated.reset(2 * seed + number)
                while game.seat is not None:
                    game.step(players[game.seat].reply(game.observe(), ()))
                won += game.outcome()[seat] == 1.0
    return won / (2 * episodes * len(opponents))
