"""A seat's game in intention space: what it heard and said, as codes of gists.

The label history before turn t is  (o_0, a_1, o_1, ..., a_{t-1}, o_{t-1}).  o_0 is there only
where another seat spoke first: a seat that answers an offer knows the offer. The return of
turn t of T is  gamma^(T-t) R: exponents count the seat's turns, are never negative, and the
last turn, answered or not, gets exactly R.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

Player = tuple[str, str]  # (game, seat): their histories never mix


class CodedGame(NamedTuple):
    """Codes of gists, or, below 0, the fixed labels of `gist`."""

    player: Player
    actions: tuple[int, ...]  # what the seat said, turn by turn
    observations: tuple[int, ...]  # what it heard before each of them
    outcome: float

    def plain(self, row: Mapping[int, int]) -> list[Any]:
        """With rows in place of codes; fixed labels stay."""
        said = [row[code] for code in self.actions]
        return [*self.player, said, [row.get(code, code) for code in self.observations], self.outcome]

    @classmethod
    def of_plain(cls, game: str, seat: str, said: list[int], heard: list[int], outcome: float) -> CodedGame:
        return cls((game, seat), tuple(said), tuple(heard), outcome)


Voice = TypeVar("Voice")


def utterances(said: Sequence[Sequence[Voice]], heard: Sequence[Sequence[Voice]]) -> Iterator[Voice]:
    """Everything that counts as said in one game, seat by seat. Each utterance counts once: what a seat heard
    counts where it is no other seat's, as a world's answer or several utterances heard as one."""
    voiced = set(chain.from_iterable(said))
    return chain(*said, (each for each in chain.from_iterable(heard) if each not in voiced))


def codes_of(seats: Sequence[CodedGame]) -> list[int]:
    """Of one game's clustered utterances."""
    found = utterances([seat.actions for seat in seats], [seat.observations for seat in seats])
    return [code for code in found if code >= 0]


def turn_returns(outcome: float, turns: int, gamma: float) -> list[float]:
    return [gamma ** (turns - t) * outcome for t in range(1, turns + 1)]
