"""What a game that says nothing of its words and players is given: a player of listed actions, and the texts of
practice games, in which its words are met. Their seeds are below zero, those of no episode that is trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envs.coroutines import finish
from envs.text.listed import Chooser

PRACTICE_GAMES = 40

_texts: dict[tuple[type, str], tuple[str, ...]] = {}  # by game class and options


class AnyAction(Chooser):
    """Says any of the listed actions, and nothing where none is listed."""

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return super().reply(observation, actions) if actions else ""


def texts_of_practice(made_by: type, options: dict[str, Any]) -> tuple[str, ...]:
    """All that is seen and said in practice games by the scripted players in turns; only openings where there is no
    player. They are played once for each class and options."""
    key = made_by, repr(sorted(options.items()))
    if key not in _texts:
        _texts[key] = tuple(dict.fromkeys(_practise(made_by, options)))
    return _texts[key]


def _practise(made_by: type, options: dict[str, Any]) -> Iterator[str]:
    """Every fourth game begins with an utterance of no words, so that the answer to nonsense is met too."""
    game, players = made_by(**options), made_by.players()
    for number in range(PRACTICE_GAMES):
        seated = {}
        if players:
            name = sorted(players)[number % len(players)]
            seated = {seat: players[name](**options) for seat in game.seats}
        for place, player in enumerate(seated.values()):
            player.reset(-1 - number * len(seated) - place)
        finish(game.reset(-1 - number))
        silent = number % 4 == 3
        while (seat := game.seat) is not None:
            seen, listed = game.observe(), tuple(game.actions())
            yield from (seen, *listed)
            if seat not in seated:
                break
            said = seated[seat].reply(seen, listed)
            yield said
            finish(game.step("" if silent else said))
            silent = False
        else:
            yield from (*game.closing().values(), *game.facts().values())
