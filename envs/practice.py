"""What a game that says nothing of its words and players is given: a player of listed actions, and the texts of
practice games, in which its words are met. Their seeds are below zero, those of no episode that is trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any

from envs.coroutines import finish
from envs.text.listed import Chooser
from envs.well_formed import good_outcome, good_sight, good_step, good_texts

PRACTICE_GAMES = 40
PRACTICE_SECONDS = 60.0

_texts: dict[tuple[type, str], tuple[str, ...]] = {}  # by game class and options


class AnyAction(Chooser):
    """Says any of the listed actions, and nothing where none is listed."""

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        return super().reply(observation, actions) if actions else ""


def texts_of_practice(made_by: type, options: dict[str, Any]) -> tuple[str, ...]:
    """All that is seen and said in practice games by the scripted players in turns; only openings where there is no
    player. They are played once for each class and options, in a thread that is left where a game hangs."""
    key = made_by, repr(sorted(options.items()))
    if key not in _texts:
        _texts[key] = _within(PRACTICE_SECONDS, made_by.__name__, lambda: _practise(made_by, options))
    return _texts[key]


def _within(seconds: float, name: str, texts: Callable[[], Iterator[str]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    ended: list[BaseException | None] = []
    given_up = Event()

    def play() -> None:
        try:
            for text in texts():
                found[text] = None
                if given_up.is_set():
                    return
            ended.append(None)
        except BaseException as error:  # a game may raise SystemExit, too
            ended.append(error)

    player = Thread(target=play, name="practice", daemon=True)
    player.start()
    player.join(seconds)
    if not ended:
        given_up.set()
        raise TimeoutError(
            f"{PRACTICE_GAMES} practice games of {name}, in which its words are met, are not over after {seconds:g} s: "
            "end its games sooner, or list its words in language()"
        )
    if isinstance(ended[0], SystemExit | KeyboardInterrupt):
        raise RuntimeError(f"{name} raised {type(ended[0]).__name__}") from ended[0]
    if ended[0] is not None:
        raise ended[0]
    return tuple(found)


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
        silent, begun = number % 4 == 3, False
        while (seat := game.seat) is not None or not begun:
            seen, listed = good_sight(game)
            yield from (seen, *listed)
            if seat not in seated:
                break
            said = seated[seat].reply(seen, listed)
            yield said
            good_step(game, finish(game.step("" if silent else said)))
            silent, begun = False, True
        else:
            good_outcome(game)
            yield from (*good_texts(game, "closing").values(), *good_texts(game, "facts").values())
