"""Checks of game options: what is wrong is one line that names the option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Choice = TypeVar("Choice")


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
