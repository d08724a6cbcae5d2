"""What an utterance can mean, and the words that carry no meaning of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SMALL = (
    "is it its are they a an the do does did can could would will has have you i one people person humans someone "
    "thing things object something kind type sort of in on at to for with from made make makes use uses used usually "
    "normally often typically generally be being found find fit fits look looks feel feels taste tastes colored "
    "considered called mostly commonly this that"
)
SMALL_WORDS = frozenset(_SMALL.split())


@dataclass(frozen=True, slots=True)
class Comparison:
    """Is the object `more` (or less) than `value` centimetres or kilograms?"""

    more: bool
    unit: str  # cm or kg
    value: float
    words: str  # as it was said: "bigger than a cat"


@dataclass(frozen=True, slots=True)
class Claim:
    """Several facts, or one with a part that nobody understood.

    all      each of them is true: "an animal that lives in the sea"
    any      one of them is true: "plastic, metal or glass"
    agree    answered only if all are true or all are false
    part     the last is a part of the object, and the others are said of the part: "a long nose"
    """

    how: str
    facts: tuple[tuple[str, bool], ...]  # name, whether the contrary is meant
    known: bool = True  # False: more was said, so nothing is ever plainly true

    @property
    def words(self) -> str:
        joined = (" or " if self.how == "any" else " and ").join(
            f"the contrary of {name}" if contrary else name for name, contrary in self.facts
        )
        return joined if self.known else f"{joined} and more"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an utterance asks. Exactly one of attribute, guess, comparison, claim and question is set."""

    attribute: str | None = None  # of the table, or a fact of its knowledge
    guess: str | None = None
    negated: bool = False  # the contrary of the attribute
    kind: str | None = None  # with an attribute: and is it this kind of thing? With a guess: or is it of this kind?
    comparison: Comparison | None = None
    claim: Claim | None = None
    question: str | None = None  # left to a server to read

    @property
    def words(self) -> str:
        if self.comparison is not None:
            return f"whether it is {self.comparison.words}"
        if self.question is not None:
            return self.question
        if self.claim is not None:
            return f"about {self.claim.words}"
        if self.guess is not None:
            return f"whether it is a kind of {self.guess}"
        about = f"about {'the contrary of ' if self.negated else ''}{self.attribute}"
        return about if self.kind is None else f"{about} and {self.kind}"


def words_of(text: str) -> tuple[str, ...]:
    """Lower-case words; apostrophes vanish, any other mark separates words."""
    return tuple(re.findall(r"[^\W_]+", text.lower().replace("'", "").replace("\u2019", "")))
