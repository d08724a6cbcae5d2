"""What of an utterance is embedded: the game's own `gist` of it, with its white space collapsed, and the `amounts`
that the game reads in it. Both are hooks of `envs.game`, and as the game they know nothing of what a model thought.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from envs.game import hook
from envs.registry import game_class
from envs.text.thinking import spoken

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
    said = spoken(utterance)
    text = one_line(hook(made_by, "gist")(said)).rstrip()
    found = hook(made_by, "amounts")(said)
    return Gist(text, tuple((name, _bounded(found[name])) for name in sorted(found) if not math.isnan(found[name])))


def one_line(text: str) -> str:
    """With its white space collapsed, and no longer than what is embedded."""
    return " ".join(text.split())[:LONGEST]


def _bounded(amount: float) -> float:
    return float(min(max(amount, -LARGEST), LARGEST))


def observations_of(game: str) -> str:
    """What the game asks its observations to be taken as."""
    asked = hook(game_class(game), "observations")
    if asked not in ("text", "labels", "none"):
        raise ValueError(f"game {game!r} has observations = {asked!r}, which must be 'text', 'labels' or 'none'")
    return asked


def answer_of(observation: str) -> int:
    """YES, NO or OTHER, by the first word."""
    words = observation.lower().split(maxsplit=1)
    return ANSWERS.get(words[0].strip(".,!;:\"'"), OTHER) if words else OTHER
