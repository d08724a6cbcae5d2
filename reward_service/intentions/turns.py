"""Turns of many games side by side, grouped at any labelling and length of history.

The history of turn t is (o_0, a_1, o_1, ..., a_(t-1), o_(t-1)). Groups are found exactly, by interning histories
turn by turn of all games at once; nothing is hashed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from reward_service.intentions.gist import NOTHING, OTHER
from reward_service.intentions.means import Grouped, pairs_of, places, returns_of
from reward_service.intentions.trajectory import CodedGame


class Histories(NamedTuple):
    """Each turn's group at one granularity and history length: numbers from 0, without gaps."""

    history: np.ndarray  # int32 [turns]
    action: np.ndarray  # int32 [turns]


@dataclass(eq=False)
class Turns:
    """Of seats' games, one after the other."""

    said: np.ndarray  # int [turns]: codes
    heard: np.ndarray  # int [turns]: before it
    lengths: np.ndarray  # int64 [games]
    players: np.ndarray  # int64 [games]: whose, as numbers from 0
    outcomes: np.ndarray  # float64 [games]
    gamma: float

    def __post_init__(self) -> None:
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.values = returns_of(self.outcomes, self.lengths, self.gamma)

    @classmethod
    def of(cls, games: Sequence[CodedGame], gamma: float) -> Turns:
        players = sorted({game.player for game in games})
        return cls(
            said=np.fromiter(chain.from_iterable(game.actions for game in games), np.int64),
            heard=np.fromiter(chain.from_iterable(game.observations for game in games), np.int64),
            lengths=np.array([len(game.actions) for game in games], np.int64),
            players=np.array([players.index(game.player) for game in games], np.int64),
            outcomes=np.array([game.outcome for game in games], np.float64),
            gamma=gamma,
        )

    @property
    def count(self) -> int:
        return len(self.values)

    def depth(self) -> np.ndarray:
        """int32 [turns]: place in the seat's own game, from 0."""
        return places(self.lengths).astype(np.int32)

    def game(self) -> np.ndarray:
        """int64 [turns]: the seat's game, from 0."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def player(self) -> np.ndarray:
        """int64 [turns]"""
        return np.repeat(self.players, self.lengths)

    def _depths(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Turn number, the games that have such a turn, and where it stands."""
        for depth in range(int(self.lengths.max(initial=0))):
            games = np.flatnonzero(self.lengths > depth)
            yield depth, games, self.starts[games] + depth

    def histories(self, labels: np.ndarray, length: int | None = None) -> Histories:
        """`labels[code]`: the intention of a code. `length`: how many of the latest turns a history
        remembers; None: all."""
        names = np.append(labels, range(OTHER, 0)).astype(np.int64)  # a code below 0 is its own label
        names -= names.min()
        width = int(names.max()) + 1
        if length is None:
            return self._whole(names, width)
        history = self._latest(names, width, length)
        return Histories(history.astype(np.int32), interned(history * width + names[self.said]).astype(np.int32))

    def _whole(self, names: np.ndarray, width: int) -> Histories:
        """Each history is found from the one before it. Turns of different depths share no group."""
        found = Histories(np.empty(self.count, np.int32), np.empty(self.count, np.int32))
        current, known = self.players.copy(), [0, 0]
        for depth, games, place in self._depths():
            history = interned(current[games] * width * width + self._step(names, width, place, depth))
            current[games] = history
            for kind, numbers in enumerate((history, interned(history * width + names[self.said[place]]))):
                found[kind][place] = known[kind] + numbers
                known[kind] += int(numbers.max()) + 1
        return found

    def _latest(self, names: np.ndarray, width: int, length: int) -> np.ndarray:
        """From the newest of the remembered turns back; one that there was not is a step of its own."""
        history, none = self.player(), width * width
        for back in range(length):
            steps = np.full(self.count, none, np.int64)
            for depth, _, place in self._depths():
                if depth >= back:
                    steps[place] = self._step(names, width, place - back, depth - back)
            history = interned(history * (none + 1) + steps)
        return history

    def _step(self, names: np.ndarray, width: int, place: np.ndarray, depth: int) -> np.ndarray:
        """What was said at the turn before, and what was heard since, as one number."""
        before = names[self.said[place - 1]] if depth else names[NOTHING]
        return before * width + names[self.heard[place]]

    def inside(self, group: np.ndarray) -> np.ndarray:
        """int64 [turns]: turns of one gist in one group."""
        return interned(group.astype(np.int64) * (int(self.said.max(initial=0)) + 1) + self.said)

    def grouped(self, group: np.ndarray, values: np.ndarray | None = None, evidence: bool = False) -> Grouped:
        """`group`: each turn's, from 0. `values`: in place of the returns."""
        held = self.values if values is None else values
        return Grouped(
            lambda: np.bincount(group)[group],
            lambda: np.bincount(group, held)[group],
            (lambda: pairs_of(group, self.game(), held)[0]) if evidence else None,
        )

    def group_means(self, labels: np.ndarray) -> np.ndarray:
        """Mean return, turn by turn, over all turns with the same (history, action)."""
        return self.grouped(self.histories(labels).action).means()

    def turn_means(self, values: np.ndarray | None = None) -> np.ndarray:
        return self.grouped(self.at_turn(), values).means()

    def at_turn(self) -> np.ndarray:
        """int64 [turns]: equal at the same place in a game of the same player."""
        longest = int(self.lengths.max(initial=0)) + 1
        return interned(self.player() * longest + self.depth())


def interned(keys: np.ndarray) -> np.ndarray:
    """int64: equal keys share a number, from 0."""
    return np.unique(keys, return_inverse=True)[1].reshape(keys.shape)
