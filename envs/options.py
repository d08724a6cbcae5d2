"""Checks of game options: what is wrong is one line that names the option."""

from __future__ import annotations


def whole_number(option: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"game option {option}={value!r} must be a whole number from {least} to {most}")
    return value
