"""Sampled games with credit on their words.

Where the reward service gave advantages, they are the credit shown: what the words were trained
with. Where it gave rewards, the credit shown is the discounted return from the turn on, less the
mean of the sampled games at the same turn of the same seat: what a per-turn baseline makes of it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster.report.figures import short
from reward_service.intentions.gist import Gist, gist_of

if TYPE_CHECKING:
    from cluster.report.words import Words

MOST_BYTES = 1_500_000  # of games on a page
LONGEST = 2_000  # characters shown of one text


def games(
    samples: Sequence[Mapping[str, Any]],
    gamma: float,
    labels: Mapping[Gist, int] | None,
    room: int = MOST_BYTES,
    words: Mapping[tuple[int, int], Sequence[Words | None]] | None = None,
) -> dict[str, Any]:
    """What the page shows of them: as many as there is room for, evenly over the updates. `words`: of their turns, by
    update and ticket number, where a turn's tokens have advantages of their own."""
    credits = credits_of(samples, gamma)
    games = [_game(each, credit, labels) for each, credit in zip(samples, credits, strict=True)]
    for game in games:
        trained = (words or {}).get((game["update"], game["number"]), [None] * len(game["turns"]))
        for turn, tokens in zip(game["turns"], trained, strict=True):
            if tokens is not None:
                turn["words"] = shortened(tokens)
    size = sum(len(json.dumps(each)) for each in games)
    every = max(1, -(-size // room))
    return {
        "kind": next((each["kind"] for each in samples if each["kind"]), None),
        "scale": _scale(value for credit in credits for value in credit if value is not None),
        "scale_of_words": _scale(
            value for game in games for turn in game["turns"] for _, value in turn.get("words", ())
        ),
        "sampled": len(samples),
        "games": games[::every],
    }


def _scale(credit: Iterable[float]) -> float:
    sizes = [abs(value) for value in credit]
    return short(max(float(np.quantile(sizes, 0.9)), 1e-6)) if sizes else 1.0


def credits_of(samples: Sequence[Mapping[str, Any]], gamma: float) -> list[list[float | None]]:
    """Of each game one entry a turn; None where the policy did not speak."""
    if not any(each["kind"] == "reward" for each in samples):
        return [[turn.get("credit") for turn in each["turns"]] for each in samples]
    returns = [_returns(each, gamma) for each in samples]
    at: dict[tuple[str, int], list[float]] = defaultdict(list)
    for found in returns:
        for value, key in found:
            if key is not None:
                at[key].append(value)
    mean = {key: sum(values) / len(values) for key, values in at.items()}
    return [[None if key is None else value - mean[key] for value, key in found] for found in returns]


def _returns(sample: Mapping[str, Any], gamma: float) -> list[tuple[float, tuple[str, int] | None]]:
    """Discounted return from each turn on, and (seat, which of its turns)."""
    ahead: dict[str, float] = defaultdict(float)
    seen: dict[str, int] = defaultdict(int)
    keys = []
    for turn in sample["turns"]:
        keys.append((turn["seat"], seen[turn["seat"]]) if "credit" in turn else None)
        seen[turn["seat"]] += 1
    found = []
    for turn, key in zip(reversed(sample["turns"]), reversed(keys), strict=True):
        if key is not None:
            ahead[turn["seat"]] = turn["credit"] + gamma * ahead[turn["seat"]]
        found.append((ahead[turn["seat"]], key))
    return found[::-1]


def _game(
    sample: Mapping[str, Any], credit: Sequence[float | None], labels: Mapping[Gist, int] | None
) -> dict[str, Any]:
    seats = [seat for seat, player in sample["players"].items() if player == "policy"]
    turns = []
    for turn, value in zip(sample["turns"], credit, strict=True):
        row = {**turn, "heard": clipped(turn["heard"]), "said": clipped(turn["said"])}
        row.pop("credit", None)
        if value is not None:
            row["credit"] = short(value)
            if labels is not None:
                row["intention"] = labels[gist_of(sample["game"], turn["said"])]
        turns.append(row)
    shown = {key: sample[key] for key in ("update", "number", "game", "players", "outcome", "terminated", "facts")}
    return shown | {"seats": seats, "turns": turns, "closing": {k: v for k, v in sample["closing"].items() if v}}


def clipped(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def shortened(words: Words) -> list[tuple[str, float]]:
    """As much of them as `clipped` leaves of their text."""
    found, size = [], 0
    for text, credit in words:
        if (size := size + len(text)) > LONGEST:
            return [*found, (" …", 0.0)]
        found.append((text, short(credit)))
    return found
