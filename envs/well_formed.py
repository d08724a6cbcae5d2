"""Whether what somebody wrote is a game, and whether a game answers as the contract says.

    is_a_game     its class or its object, when it is made        -> NotAGame, a ValueError
    good_step     what `step`, `gist` and `amounts` returned      -> TypeError, ValueError
    good_sight    what `seat`, `observe` and `actions` return     -> TypeError, ValueError
    good_outcome  what `outcome` returned once the game is over   -> TypeError, ValueError
    good_texts    what `closing` and `facts` returned             -> TypeError
    told          what else it raised, in a line

Each is one line that names the game, what it did, and what it has to do.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.coroutines import Blocking
from envs.step import Step, good_rewards
from envs.text.thinking import spoken

if TYPE_CHECKING:
    from envs.game import Game

METHODS = (
    *("reset", "observe", "step", "briefing", "actions", "outcome"),
    *("closing", "facts", "save", "restore", "players", "language"),
)
LONGEST = 300  # characters of an error that are told
# what these raise says which method of which game
NAME_IT = __file__, *(str(Path(__file__).with_name(name)) for name in ("game.py", "step.py"))
ROUNDING = 1e-6  # an outcome may be beyond [0, 1] by so much


class NotAGame(ValueError):
    pass


def is_a_game(name: str, made: Any) -> None:
    """`made`: its class, or an object of it."""
    made_by = made if isinstance(made, type) else type(made)
    derive = "derive it from parley.Game, which has all but seats, reset, observe and step"
    if left := sorted(getattr(made_by, "__abstractmethods__", ())):
        raise NotAGame(f"{name} is no whole game: its class does not say {', '.join(left)}")
    if missing := [each for each in METHODS if not hasattr(made, each)]:
        raise NotAGame(f"{name} is no game: it has no {', '.join(missing)}; {derive}")
    if made is made_by:
        return
    for each, example in (("seats", '("guesser",)'), ("horizon", "20")):
        if not hasattr(made, each):
            raise NotAGame(f"{name} is no whole game: it does not say {each}, such as {each} = {example}")
    seats, horizon = made.seats, made.horizon
    names = isinstance(seats, tuple | list) and all(isinstance(seat, str) and seat for seat in seats)
    if not names or not seats or len(set(seats)) < len(seats):
        raise NotAGame(f'{name}.seats has to be a tuple of different names, such as ("guesser",), not {seats!r}')
    if not isinstance(horizon, Integral) or horizon < 1:
        raise NotAGame(f"{name}.horizon has to be a whole number of turns from 1 on, not {horizon!r}")


def good_step(game: Game, step: Any, said: str | None = None) -> Step:
    """`said`: the utterance, of which intentions will be made."""
    if not isinstance(step, Step):
        raise TypeError(f"{_of(game)}.step has to return a Step, not {_short(step)}")
    good_rewards(_of(game), game.seats, step.rewards)
    if said is not None:
        _good_meaning(game, spoken(said))
    return step


def _good_meaning(game: Game, said: str) -> None:
    """The reward service asks the same hooks, for a whole batch at once: here an error costs one episode."""
    if hasattr(game, "gist") and not isinstance(gist := game.gist(said), str):
        raise TypeError(f"{_of(game)}.gist has to return text, not {_short(gist)}")
    if hasattr(game, "amounts"):
        amounts = game.amounts(said)
        if not isinstance(amounts, Mapping) or not all(isinstance(each, Real) for each in amounts.values()):
            raise TypeError(f"{_of(game)}.amounts has to return numbers by name, not {_short(amounts)}")


def good_sight(game: Game) -> tuple[str, tuple[str, ...]]:
    """What the acting seat sees, and what is listed for it."""
    if game.seat not in game.seats:
        over = "the game is over before anybody has spoken" if game.seat is None else "which is none of its seats"
        raise ValueError(f"{_of(game)}.seat is {game.seat!r}, {over}: one of {', '.join(game.seats)} has to act")
    seen, listed = game.observe(), game.actions()
    if not isinstance(seen, str):
        raise TypeError(f"{_of(game)}.observe has to return text, not {_short(seen)}")
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise TypeError(f"{_of(game)}.actions has to list texts, not {_short(listed)}")
    listed = tuple(listed)
    if wrong := [each for each in listed if not isinstance(each, str)]:
        raise TypeError(f"{_of(game)}.actions has to list texts, not {_short(wrong[0])}")
    return seen, listed


def good_outcome(game: Game) -> dict[str, float]:
    outcome = game.outcome()
    if not isinstance(outcome, Mapping):
        raise TypeError(f"{_of(game)}.outcome has to give each seat a number from 0 to 1, not {_short(outcome)}")
    outcome = dict(outcome)
    if strange := [seat for seat in outcome if seat not in game.seats]:
        known = ", ".join(game.seats)
        raise ValueError(f"{_of(game)}.outcome names {strange[0]!r}, which is none of its seats: {known}")
    for seat in game.seats:
        found = outcome.get(seat)
        if not isinstance(found, Real) or not -ROUNDING <= found <= 1 + ROUNDING:
            raise ValueError(
                f"{_of(game)}.outcome has to give each seat a number from 0 to 1, and gives {seat!r} {_short(found)}"
            )
    return outcome


def good_texts(game: Game, method: str) -> dict[str, str]:
    """What `closing` or `facts` returned."""
    found = getattr(game, method)()
    texts = [*found, *found.values()] if isinstance(found, Mapping) else [None]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError(f"{_of(game)}.{method} has to return texts by name, not {_short(found)}")
    return dict(found)


def told(error: BaseException) -> str:
    """In a line: what was raised, and where, if it does not name what is to be mended itself."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames and frames[-1].filename not in NAME_IT else None
    place = f" ({Path(last.filename).name}, line {last.lineno})" if last else ""
    words = str(error)
    if isinstance(error, KeyError) and error.args:  # Python's own names the key alone
        words = str(error.args[0]) if " " in str(error.args[0]) else f"there is no key {error}"
    return f"{' '.join(words.split())[:LONGEST] or type(error).__name__}{place}"


def _of(game: Game) -> str:
    """Its class, also where a game of coroutines is wrapped."""
    return type(game.game if isinstance(game, Blocking) else game).__name__


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
