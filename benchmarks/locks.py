"""Locks: a family of games in which it is known what credit to single words is worth.

A lock shows its colour, and is told one word for each of its dials. Some dials open it, each by one word that depends
on the colour; of the others any word will do. A turn pays the share of the dials that are right, and there is one turn.

The noise of a gradient has a closed form for a policy that says any word at any dial and a critic that knows all
values. The word at dial k changes the expected pay by delta[k], with variance s[k]: (1/w)(1 - 1/w)/n^2 with w words
where dial k is one of n that open the lock, else 0. A method gives the word at dial j the advantage

    turn level    delta[0] + ... + delta[last]           PPO of whole turns
    token level   the sum over k >= j of lambda_w^(k - j) delta[k]      POAD

The noise of the gradient is (1 - 1/w) times the sum over j of the advantage's variance, and its mean is the same: so
`noise` of turn level over `noise` of token level is how many times the games a method without words needs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from envs.game import OVER, Game, Player, Step
from envs.options import one_of, whole_number

WORDS = ("north", "east", "south", "west")
COLOURS = ("red", "green", "blue", "white")
WHERE = ("first", "last", "all")  # the dials that open the lock
SEAT = "picker"


def deciding(dials: int, where: str) -> tuple[int, ...]:
    return {"first": (0,), "last": (dials - 1,), "all": tuple(range(dials))}[where]


def right(dial: int, colour: str) -> str:
    return random.Random(f"{colour} {dial}").choice(WORDS)


def noise(dials: int, where: str, lambda_w: float | None) -> float:
    """Of the gradient, with a uniform policy; None: turn level."""
    chance, opens = 1 / len(WORDS), deciding(dials, where)
    variance = np.zeros(dials)
    variance[list(opens)] = chance * (1 - chance) / len(opens) ** 2
    if lambda_w is None:
        return float((1 - chance) * dials * variance.sum())
    of_advantages = [variance[dial:] @ lambda_w ** (2.0 * np.arange(dials - dial)) for dial in range(dials)]
    return float((1 - chance) * sum(of_advantages))


class Locks(Game):
    seats = (SEAT,)
    horizon = 1

    def __init__(self, dials: int = 16, where: str = "first"):
        self.dials = whole_number("dials", dials, 1, 128)
        self.opens = deciding(self.dials, one_of("where", where, WHERE))
        self.colour: str | None = None
        self.paid = 0.0

    def reset(self, seed: int) -> None:
        self.colour, self.paid = random.Random(f"colour {seed}").choice(COLOURS), 0.0

    @property
    def seat(self) -> str | None:
        return None if self.colour is None else SEAT

    def briefing(self, seat: str) -> str:
        return f"Say one of {', '.join(WORDS)} for each of the {self.dials} dials."

    def observe(self) -> str:
        return f"the lock is {self.colour}"

    def step(self, utterance: str) -> Step:
        if self.colour is None:
            raise RuntimeError(OVER)
        said = utterance.lower().split()
        fits = len(said) == self.dials
        if fits:
            self.paid = sum(said[dial] == right(dial, self.colour) for dial in self.opens) / len(self.opens)
        self.colour = None
        return Step(rewards={SEAT: self.paid}, executable=fits, terminated=True, caption=f"{self.paid:.0%} are right")

    def outcome(self) -> dict[str, float]:
        return {SEAT: self.paid}

    def save(self) -> dict[str, Any]:
        return {"colour": self.colour, "paid": self.paid}

    def restore(self, saved: dict[str, Any]) -> None:
        self.colour, self.paid = saved["colour"], saved["paid"]

    def language(self) -> Iterable[str]:
        yield from (f"the lock is {colour}" for colour in COLOURS)
        yield " ".join(WORDS)

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"mediocre": AnyWord}


class AnyWord:
    """Any word at any dial: a quarter of the pay."""

    def __init__(self, dials: int = 16, where: str = "first"):
        self.dials = dials

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"any word {seed}")

    def reply(self, observation: str, actions: Sequence[str]) -> str:
        return " ".join(self.random.choices(WORDS, k=self.dials))
