"""A seat's game in intention space: what it heard and said, as codes of gists.

The label history before turn t is  (o_0, a_1, o_1, ..., a_{t-1}, o_{t-1}).  o_0 is there only
where another seat spoke first: a seat that answers an offer knows the offer. The return of
turn t of T is  gamma^(T-t) R: exponents count the seat's turns, are never negative, and the
last turn, answered or not, gets exactly R.
"""

from __future__ import annotations

from typing import NamedTuple

Player = tuple[str, str]  # (game, seat): their histories never mix


class CodedGame(NamedTuple):
    """Codes of gists, or, below 0, the fixed labels of `gist`."""

    player: Player
    actions: tuple[int, ...]  # what the seat said, turn by turn
    observations: tuple[int, ...]  # what it heard before each of them
    outcome: float


def turn_returns(outcome: float, turns: int, gamma: float) -> list[float]:
    return [gamma ** (turns - t) * outcome for t in range(1, turns + 1)]
