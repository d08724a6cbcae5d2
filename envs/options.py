"""Checks of game options: what is wrong is one line that names the option."""

from __future__ import annotations


def whole_number(option: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"game option {option}={value!r} must be a whole number from {least} to {most}")
    return value


def one_of(option: str, value: object, choices: tuple) -> object:
    if not any(type(value) is type(each) and value == each for each in choices):
        raise ValueError(f"game option {option}={value!r} must be one of {', '.join(map(repr, choices))}")
    return value
