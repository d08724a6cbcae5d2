"""Playing Guess My City in tests."""

from __future__ import annotations

from envs.game import Game
from envs.guess_my_city.oracles import oracle_for
from envs.registry import make_game, make_player

SEAT = "guesser"
ORACLE = oracle_for("world", False)
CITIES = ORACLE.atlas.cities
PARIS, SINGAPORE, MEXICO_CITY = 88, 24, 148  # seeds


def understood(text: str) -> str:
    meaning = ORACLE.understand(text)
    return str(meaning) if meaning else "invalid"


def answer(text: str, city: str) -> str:
    return ORACLE.answer(ORACLE.understand(text), city)


def started(seed: int, **options) -> Game:
    game = make_game("guess_my_city", {"paraphrases": False, **options})
    game.reset(seed)
    return game


def play(player: str, seed: int, **options) -> tuple[Game, list[tuple[str, str]]]:
    game, guesser = make_game("guess_my_city", options), make_player("guess_my_city", player, options)
    game.reset(seed)
    guesser.reset(seed)
    said = []
    while game.seat is not None:
        observation = game.observe()
        said.append((observation, guesser.reply(observation, game.actions())))
        game.step(said[-1][1])
    return game, said


def heard(game: Game, said: list[str]) -> list[str]:
    """What the guesser sees after each of its utterances."""
    answers = []
    for utterance in said:
        game.step(utterance)
        answers.append(game.observe() if game.seat else game.closing()[SEAT])
    return answers
