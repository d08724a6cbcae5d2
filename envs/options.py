"""Options of games: what they mean, and their checks, where what is wrong is one line that names the option.

A game's options are the parameters of its `__init__`. `turns: Annotated[int, "until it is truncated"]` says what
one means; `parley games NAME` shows it.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

Choice = TypeVar("Choice")

# what several games have

Menu = Annotated[bool, "name the listed actions in the text"]
Returns = Annotated[list[float] | tuple[float, float], "the worst and the best sum of rewards: outcomes 0 and 1"]
ShowCommands = Annotated[bool, "name the commands that can be given"]
ShowScene = Annotated[bool, "tell in each turn what is in sight and what is carried, too"]
Shuffle = Annotated[bool, "list the actions in an order that the seed decides, else always in the same one"]


@dataclass(frozen=True)
class Option:
    name: str
    default: Any  # inspect.Parameter.empty: it has to be given
    meaning: str

    @property
    def needed(self) -> bool:
        return self.default is inspect.Parameter.empty


@cache
def options_of(game: type) -> tuple[Option, ...]:
    """Every game that begins asks for them."""
    hints = inspect.get_annotations(made := inspect.unwrap(game.__init__))
    known = _Known(getattr(made, "__globals__", {}))
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [each for each in inspect.signature(game).parameters.values() if each.kind in named]
    return tuple(Option(each.name, each.default, _meaning(hints.get(each.name), known)) for each in parameters)


def takes_any(game: type) -> bool:
    """Whether it has `**options`."""
    return any(each.kind is each.VAR_KEYWORD for each in inspect.signature(game).parameters.values())


class _Known(dict):
    """The names of a module; Any for what is imported for type checkers only."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _meaning(hint: Any, known: _Known) -> str:
    if isinstance(hint, str):
        try:
            hint = eval(hint, {}, known)
        except Exception:  # of a game that others wrote
            return ""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, str)), "")


def whole_number(option: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"game option {option}={value!r} must be a whole number from {least} to {most}")
    return value


def words(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"game option {option}={value!r} must be text")
    return value


def several(option: str, value: object) -> list[str]:
    """One text, or a list of them."""
    wanted = [value] if isinstance(value, str) else value
    if not isinstance(wanted, list | tuple) or not all(isinstance(each, str) for each in wanted):
        raise ValueError(f"game option {option}={value!r} must be text or a list of texts")
    return list(wanted)


def one_of(option: str, value: object, choices: Sequence[Choice]) -> Choice:
    """`True` is no 1."""
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    raise ValueError(f"game option {option}={value!r} must be one of: {', '.join(map(str, choices))}")
