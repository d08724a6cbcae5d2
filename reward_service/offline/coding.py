"""Games as codes of what was said: one row a turn, on disk.

    readings of a game -> distinct gists, with counts     in memory: bounded by distinct texts
                       -> one row a turn, one row a seat  on disk

Rows stand in the order of the file: game after game, seat after seat, turn after turn. A code below 0
is one of the fixed labels of `intentions.gist` and is never clustered. Each utterance counts once,
for whoever says it; what a seat hears counts where it is no other seat's utterance: a world's answer,
or several utterances heard as one.

    said.npy, heard.npy   int32    of each turn, and before it
    starts.npy            int64    of each seat's game: its first turn
    seats.npy             int8     its place among the seats
    outcomes.npy          float64
    games.npy             int64    number of the record
    closings.npy          int32    heard after the last turn
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from reward_service.intentions.gist import NOTHING, Gist
from reward_service.intentions.reading import Reading
from reward_service.intentions.trajectory import utterances
from reward_service.offline.columns import Column

TURNS = {"said": "<i4", "heard": "<i4"}
SEATS = {"starts": "<i8", "seats": "|i1", "outcomes": "<f8", "games": "<i8", "closings": "<i4"}


class Coding:
    """Use as a context manager."""

    def __init__(self, folder: Path, seats: Sequence[str]):
        folder.mkdir(parents=True)
        self.seats = {seat: place for place, seat in enumerate(seats)}
        self.codes: dict[Gist, int] = {}
        self.counts: list[int] = []
        self.columns = {name: Column(folder / f"{name}.npy", dtype) for name, dtype in (TURNS | SEATS).items()}
        self.open = ExitStack()

    def __enter__(self) -> Coding:
        for column in self.columns.values():
            self.open.enter_context(column)
        return self

    def __exit__(self, *exception) -> None:
        self.open.__exit__(*exception)

    @property
    def turns(self) -> int:
        return self.columns["said"].rows

    def add(self, game: int, readings: Sequence[Reading], closing: Gist | int = NOTHING) -> list[Gist]:
        """One game: the readings of all its seats, and what a lone player heard at the end. Returns
        what was not said before, in the order of the codes."""
        known = len(self.counts)
        for reading in readings:
            heard = [self._code(each) for each in reading.heard]
            said = [self._code(gist) for gist in reading.said]
            self.columns["starts"].add([self.turns])
            self.columns["seats"].add([self.seats[reading.player[1]]])
            self.columns["outcomes"].add([reading.outcome])
            self.columns["games"].add([game])
            self.columns["closings"].add([self._code(closing)])
            self.columns["said"].add(said)
            self.columns["heard"].add(heard)
        heard = [[*reading.heard, closing] for reading in readings]
        for gist in utterances([reading.said for reading in readings], heard):
            if isinstance(gist, Gist):
                self.counts[self.codes[gist]] += 1
        return list(islice(reversed(self.codes), len(self.counts) - known))[::-1]

    def _code(self, gist: Gist | int) -> int:
        """A fixed label is its own."""
        if not isinstance(gist, Gist):
            return gist
        code = self.codes.setdefault(gist, len(self.codes))
        if code == len(self.counts):
            self.counts.append(0)
        return code
