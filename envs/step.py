"""What a turn of a game did, and whether somebody's game has told it as the contract says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any


@dataclass(slots=True)
class Step:
    """What an utterance did."""

    rewards: dict[str, float] = field(default_factory=dict)  # seats left out get 0
    executable: bool = True  # False: the game could not make sense of it
    terminated: bool = False  # the game reached its own end
    truncated: bool = False  # it was cut off by the horizon
    caption: str = ""  # what just happened, in words


def good_rewards(game: str, seats: Sequence[str], rewards: Any) -> None:
    """Or TypeError, ValueError: a line on what a step of the game has paid."""
    if not isinstance(rewards, Mapping):
        raise TypeError(
            f"{game}.step has to reward seats by numbers, such as {{{seats[0]!r}: 1.0}}, not {rewards!r:.80}"
        )
    for seat, reward in rewards.items():
        if seat not in seats:
            raise ValueError(f"{game}.step rewards {seat!r}, which is none of its seats: {', '.join(seats)}")
        if not isinstance(reward, Real) or not math.isfinite(reward):
            wrong = ValueError if isinstance(reward, Real) else TypeError
            raise wrong(f"{game}.step rewards {seat!r} by {reward!r:.80}, which is no finite number")
