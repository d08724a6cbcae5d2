"""What of an utterance is embedded.

A game class may say so itself, by optional class methods and one attribute:

    gist(utterance) -> str                 # e.g. an offer reduced to "message + offer"
    amounts(utterance) -> dict[str, float] # parsed quantities, scaled to about [-1, 1],
                                           # e.g. the share that one claims
    observations = "text" | "labels" | "none"   # what is made of what a seat hears

Without them the gist is the text with its white space collapsed, and there are no amounts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from envs.registry import game_class

LONGEST = 1000  # characters; more than an embedding model reads
LARGEST = 2.0  # an absurd offer is far away, but not an axis of its own

NOTHING, YES, NO, OTHER = -1, -2, -3, -4  # labels of observations that are not clustered
ANSWERS = {"yes": YES, "no": NO}


class Gist(NamedTuple):
    """Utterances with equal gists are one point; its amounts are sorted by name."""

    text: str
    amounts: tuple[tuple[str, float], ...] = ()


def gist_of(game: str, utterance: str) -> Gist:
    return gist_by(game_class(game), utterance)


def gist_by(made_by: type, utterance: str) -> Gist:
    """As this game class would have it."""
    reduce, parse = getattr(made_by, "gist", None), getattr(made_by, "amounts", None)
    text = " ".join((reduce(utterance) if reduce else utterance).split())[:LONGEST].rstrip()
    found = parse(utterance) if parse else {}
    return Gist(text, tuple((name, _bounded(found[name])) for name in sorted(found) if not math.isnan(found[name])))


def _bounded(amount: float) -> float:
    return float(min(max(amount, -LARGEST), LARGEST))


def observations_of(game: str) -> str:
    """What the game asks its observations to be taken as."""
    asked = getattr(game_class(game), "observations", "text")
    if asked not in ("text", "labels", "none"):
        raise ValueError(f"game {game!r} has observations = {asked!r}, which must be 'text', 'labels' or 'none'")
    return asked


def answer_of(observation: str) -> int:
    """YES, NO or OTHER, by the first word."""
    words = observation.lower().split(maxsplit=1)
    return ANSWERS.get(words[0].strip(".,!;:\"'"), OTHER) if words else OTHER
