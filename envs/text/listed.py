"""Games whose actions are listed: which of them an utterance names, and how they are put in order.

An utterance names a listed action if it is that action, letter for letter, but for upper
case, space around it and one final period. Everything else names none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

LONGEST = 400  # characters; anything longer is not one action


def named(utterance: str, listed: Sequence[str]) -> str | None:
    """The listed action that the utterance names. The listed ones may hold capitals."""
    if len(utterance) > LONGEST:
        return None
    said = utterance.strip().removesuffix(".").rstrip().lower()
    return next((action for action in listed if action.lower() == said), None)


def order_of(count: int, seed: int, shuffle: bool) -> tuple[int, ...]:
    """In which order `count` actions are listed in this episode, so that the place of an
    action in the list gives nothing away."""
    places = list(range(count))
    if shuffle:
        random.Random(f"order {seed}").shuffle(places)
    return tuple(places)


def menu_of(listed: Sequence[str]) -> str:
    return f"You can: {'; '.join(listed)}."


def yes_or_no(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"game option {option}={value!r} must be true or false")
    return value


def one_of(option: str, value: object, known: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"game option {option}={value!r} must be one of: {', '.join(known)}")
    return value


class Chooser:
    """Takes its own advice with probability `wisdom`, else any listed action."""

    wisdom: float = 1.0

    def __init__(self, **options):
        """Players are given all options of the game; each takes the ones that it needs."""

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"chooser {seed}")

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        advice = self.advice(observation, actions)  # always asked: it may remember what it sees
        said = advice if self.random.random() < self.wisdom else self.random.choice(actions)
        self.said(said)
        return said

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        return self.random.choice(actions)

    def said(self, action: str) -> None:
        """What was chosen in the end, for players that remember it."""
