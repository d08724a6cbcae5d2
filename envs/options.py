"""Checks of game options: what is wrong is one line that names the option."""

from __future__ import annotations


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


def one_of(option: str, value: object, choices: tuple) -> object:
    if not any(type(value) is type(each) and value == each for each in choices):
        raise ValueError(f"game option {option}={value!r} must be one of {', '.join(map(repr, choices))}")
    return value
