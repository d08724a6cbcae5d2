"""Mean returns over (label history, label of the action), in a sliding window of episodes.

A(t) is the group of turn t, all turns with the same label history and the same action. It is found
by a key made of other groups, so that a turn costs one look-up for each length of history,
whatever it remembers, and whatever the length of the game:

    whole histories        A(t)   = A(t-1), heard(t), said(t)
    the latest turn alone  A_1(t) = A_0(t-1), heard(t), said(t)          A_0(t) = player, said(t)
    the latest m turns     A_m(t) = A_j(t-i), A_i(t)                     i = m // 2, j = m - i

    one gist in A_m(t)     its code inside A_m(t)

where in place of what was before the first turn stands the player. H(t), all turns with the same
history, is A(t) without said(t). Everything is done for many episodes at once.

Sums are exact: a return is held as a whole number of 2^-60, so what has been added and expired
leaves nothing behind, and the order of arrival does not matter. A mean is a function of a
group's count and exact sum alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from reward_service.intentions.gist import NOTHING, OTHER
from reward_service.intentions.means import Grouped
from reward_service.intentions.pairing import Pairing
from reward_service.intentions.pooling.pooling import GIST, Table
from reward_service.intentions.trajectory import Player

HALF = 30  # bits of each half of a return's fraction
LABEL_BITS = 13
STEP_BITS = 2 * LABEL_BITS
SCATTER = np.uint64(0x9E3779B97F4A7C15)  # odd, so multiplying by it can be undone
MOST_LABELS = 2**LABEL_BITS + OTHER - 1  # stands for "said nothing yet" in the keys of histories


class Sums:
    """Of groups, by their numbers: how many turns, and what they returned."""

    def __init__(self) -> None:
        self.count, self.high, self.low = (np.empty(0, np.int64) for _ in range(3))

    def grow(self, size: int) -> None:
        for name in ("count", "high", "low"):
            column = getattr(self, name)
            setattr(self, name, np.append(column, np.zeros(size - len(column), column.dtype)))

    def put(self, groups: np.ndarray, returns: np.ndarray, sign: int) -> None:
        """`groups` [kinds, turns]"""
        high, low = _halves(returns)
        for number in groups:
            np.add.at(self.count, number, sign)
            np.add.at(self.high, number, sign * high)
            np.add.at(self.low, number, sign * low)

    def sums(self, groups: np.ndarray) -> np.ndarray:
        """float64; of one exact sum always the same."""
        low = self.low[groups]
        return (self.high[groups] + (low >> HALF)) * 2.0**-HALF + (low & 2**HALF - 1) * 2.0 ** (-2 * HALF)


class Groups(Sums):
    """Numbered groups of some kinds, each found by a key. A group is there while it has members; then
    its number is free again. Groups that its key names are there as long: they have its members' games.

    Turns may be of periods: then each period counts half of the one after it (`faded`)."""

    def __init__(self, kinds: int):
        super().__init__()
        self.free: list[int] = []
        self.numbers = [defaultdict(self.free.pop) for _ in range(kinds)]  # key -> number
        self.keys = np.empty(0, np.uint64)
        self.periods: dict[int, Sums] = {}  # while turns of them are there
        self.turns: Counter[int] = Counter()  # of each period

    def __len__(self) -> int:
        return sum(map(len, self.numbers))

    def find(self, kind: int, keys: np.ndarray) -> np.ndarray:
        """int64: the number of each; one that is new has yet to be added to."""
        if len(self.free) < len(keys):
            self._more(len(keys))
        keys = _scattered(keys)
        found = np.fromiter(map(self.numbers[kind].__getitem__, keys.tolist()), np.int64, len(keys))
        self.keys[found] = keys
        return found

    def _more(self, least: int) -> None:
        before = len(self.keys)
        self.keys = np.append(self.keys, np.zeros(max(least, before), np.uint64))
        for sums in (self, *self.periods.values()):
            sums.grow(len(self.keys))
        self.free.extend(range(before, len(self.keys)))

    def add(self, groups: np.ndarray, returns: np.ndarray, periods: np.ndarray | None = None, sign: int = 1) -> None:
        """`groups` [kinds, turns]; `periods`: of the turns, if there are any."""
        self.put(groups, returns, sign)
        for period in [] if periods is None else np.unique(periods).tolist():
            if period not in self.periods:
                self.periods[period] = Sums()
                self.periods[period].grow(len(self.keys))
            of = periods == period
            self.periods[period].put(groups[:, of], returns[of], sign)
            self.turns[period] += sign * int(of.sum())
            if not self.turns[period]:
                del self.periods[period], self.turns[period]

    def remove(self, groups: np.ndarray, returns: np.ndarray, periods: np.ndarray | None = None) -> None:
        self.add(groups, returns, periods, -1)
        for numbers, number in zip(self.numbers, groups, strict=True):
            empty = np.unique(number[self.count[number] == 0])
            self.free.extend(map(numbers.pop, self.keys[empty].tolist()))

    def faded(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float64: counts and sums, the latest period whole."""
        now = max(self.periods)
        counts, sums = np.zeros(groups.shape), np.zeros(groups.shape)
        for period, held in sorted(self.periods.items()):
            counts += held.count[groups] * 2.0 ** (period - now)
            sums += held.sums(groups) * 2.0 ** (period - now)
        return counts, sums


def _scattered(keys: np.ndarray) -> np.ndarray:
    """uint64, different for different keys. A dictionary goes by the low bits, which would be those of
    the labels alone."""
    keys = keys.astype(np.uint64) * SCATTER
    return keys ^ keys >> np.uint64(32)


def _halves(returns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64: whole units of 2^-30, and the rest in units of 2^-60."""
    scaled = np.ldexp(returns, HALF)
    high = np.floor(scaled)
    return high.astype(np.int64), np.ldexp(scaled - high, HALF).astype(np.int64)


class Columns(NamedTuple):
    """Turns of some seats' games, one game after the other."""

    player: np.ndarray  # int64: number of the player
    index: np.ndarray  # int64: 0 at a game's first turn
    returns: np.ndarray  # float64
    centre: np.ndarray  # float64: what was taken off them
    periods: np.ndarray | None = None  # int64: each counts half of the one after it; None: there are none


class TurnLabels(NamedTuple):
    """int64 [turns], from OTHER to below MOST_LABELS."""

    said: np.ndarray
    heard: np.ndarray  # before it


class Entry(NamedTuple):
    """One seat's game as it stands in the aggregates, or several one after the other."""

    aggregates: Aggregates
    groups: np.ndarray  # int64 [rows, turns]
    returns: np.ndarray  # float64 [turns]
    centre: np.ndarray  # float64 [turns]: what was taken off them
    periods: np.ndarray | None = None  # int64 [turns]

    def grouped(self, row: int) -> Grouped:
        held, group, pairing = self.aggregates.groups, self.groups[row], self.aggregates.pairing
        pairs = None if pairing is None else lambda: pairing.pairs(row)
        if self.periods is not None:
            return Grouped(lambda: held.faded(group)[0], lambda: held.faded(group)[1], pairs)
        return Grouped(lambda: held.count[group], lambda: held.sums(group), pairs)

    def span(self, start: int, end: int) -> Entry:
        return Entry(
            self.aggregates,
            self.groups[:, start:end],
            self.returns[start:end],
            self.centre[start:end],
            None if self.periods is None else self.periods[start:end],
        )


class Aggregates:
    """Tables side by side, fine to coarse. `tables`: (level, length) of each; length: how many of
    the latest turns a history remembers, None: all. `histories`: groups H are wanted too; `by_turn`:
    and groups of a player's turns of the same index; `evidence`: and what turns of one group have in common;
    `fading`: turns are of periods.

    The rows of an entry are kinds of groups: `actions` and `histories` name those of each table's A
    and H, `turn` the one by turn."""

    def __init__(
        self,
        tables: Sequence[Table],
        histories: bool = False,
        by_turn: bool = False,
        evidence: bool = False,
        fading: bool = False,
    ):
        self.players: dict[Player, int] = {}
        asked: dict[int, list[int | None]] = {}
        for level, length in tables:
            asked.setdefault(level, []).append(length)
        self.gists = {length: 0 for length in asked.pop(GIST, ())}  # length of history -> row
        self.level = tables[0][0] if tables else None  # the finest
        self.chains = {level: _chain(lengths) for level, lengths in asked.items()}
        made = [(level, length) for level, lengths in self.chains.items() for length in lengths]
        self.action = {table: row for row, table in enumerate(made)}
        self.history = {table: len(made) + row for row, table in enumerate(made)} if histories else {}
        known = len(made) + len(self.history)
        self.gists = {length: known + row for row, length in enumerate(self.gists)}
        known += len(self.gists)
        self.turn = known if by_turn else None
        self.actions = [self.gists[length] if level == GIST else self.action[level, length] for level, length in tables]
        self.histories = [self.history[table] for table in tables if table[0] != GIST] if histories else []
        self.rows = known + by_turn
        self.groups = Groups(self.rows)
        self.pairing = Pairing(self.rows) if evidence else None
        self.fading = fading

    def player(self, player: Player) -> int:
        return self.players.setdefault(player, len(self.players))

    def add(self, turns: Columns, labels: Callable[[int], TurnLabels], codes: np.ndarray | None = None) -> Entry:
        """`labels`: those of a level; `codes`: of the gists that were said, where these are told apart."""
        found = np.empty((self.rows, len(turns.index)), np.int64)
        root = _root(turns)
        if self.turn is not None:
            found[self.turn] = self.groups.find(self.turn, root << 32 | turns.index)
        for level, lengths in self.chains.items():
            said, heard = labels(level)
            if max(said.max(initial=0), heard.max(initial=0)) >= MOST_LABELS:
                raise ValueError(f"a labelling has {MOST_LABELS} intentions or more")
            for length in lengths:
                self._fill(found, (level, length), root, turns.index, TurnLabels(said, heard))
        for length, row in self.gists.items():
            found[row] = self.groups.find(row, found[self.action[self.level, length]] << 32 | codes)
        entry = Entry(self, found, turns.returns, turns.centre, turns.periods)
        self._pair(entry, np.cumsum(turns.index == 0) - 1, 1)
        self.groups.add(found, turns.returns, turns.periods)
        return entry

    def _pair(self, entry: Entry, game: np.ndarray, sign: int) -> None:
        if self.pairing is not None:
            self.pairing.change(self.groups.count, entry.groups, game, entry.returns, sign)

    def _fill(
        self, found: np.ndarray, table: tuple[int, int | None], root: np.ndarray, index: np.ndarray, labels: TurnLabels
    ) -> None:
        """The rows of one length: its A, and its H if that is wanted."""
        level, length = table
        row, history = self.action[table], self.history.get(table)
        if length is None or length <= 1:
            heard = np.full_like(labels.heard, NOTHING) if length == 0 else labels.heard
            steps = _step(heard, labels.said)
            if length is None:
                above = self._whole(found[row], row, root, index, steps)
            else:
                above = _earlier(found[self.action[level, 0]], 1, root, index) if length else root
                found[row] = self.groups.find(row, above << STEP_BITS | steps)
            if history is not None:
                found[history] = self.groups.find(history, above << STEP_BITS | _step(heard, MOST_LABELS))
        else:
            late, early = length // 2, length - length // 2
            above = _earlier(found[self.action[level, early]], late, root, index) << 32
            found[row] = self.groups.find(row, above | found[self.action[level, late]])
            if history is not None:
                found[history] = self.groups.find(history, above | found[self.history[level, late]])

    def _whole(self, found: np.ndarray, row: int, root: np.ndarray, index: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Fills `found`: the first turns of all games, then the second ones, ... Returns the groups above."""
        above = root.copy()
        order = np.argsort(index, kind="stable")
        for turn in np.split(order, np.flatnonzero(np.diff(index[order])) + 1):
            if len(turn) and index[turn[0]]:
                above[turn] = found[turn - 1]
            found[turn] = self.groups.find(row, above[turn] << STEP_BITS | steps[turn])
        return above

    def situations(self, entry: Entry, turns: Columns, heard: np.ndarray) -> np.ndarray:
        """int64 [turns]: equal where the player and the first table's label histories are, whole ones."""
        above = _earlier(entry.groups[self.actions[0]], 1, _root(turns), turns.index)
        return above << LABEL_BITS | (heard - OTHER)

    def remove(self, entries: Sequence[Entry]) -> None:
        """Each one seat's game."""
        whole = self.joined(entries)
        self._pair(whole, np.repeat(np.arange(len(entries)), [len(entry.returns) for entry in entries]), -1)
        self.groups.remove(whole.groups, whole.returns, whole.periods)

    def joined(self, entries: Sequence[Entry]) -> Entry:
        groups, none = np.empty((self.rows, 0), np.int64), np.empty(0)
        return Entry(
            self,
            np.concatenate([groups, *(entry.groups for entry in entries)], axis=1),
            np.concatenate([none, *(entry.returns for entry in entries)]),
            np.concatenate([none, *(entry.centre for entry in entries)]),
            np.concatenate([entry.periods for entry in entries]) if entries and self.fading else None,
        )


def _chain(lengths: Sequence[int | None]) -> list[int | None]:
    """Those and what they are made of, short before long."""
    made, missing = set(), {length for length in lengths if length is not None}
    while missing:
        length = missing.pop()
        made.add(length)
        missing |= ({length // 2, length - length // 2} if length > 1 else {0}) - made
    return ([None] if None in lengths else []) + sorted(made)


def _root(turns: Columns) -> np.ndarray:
    """The player in place of a group: below 0, no group's number."""
    return -1 - turns.player


def _earlier(groups: np.ndarray, turns: int, root: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The groups of so many turns before, in the same game."""
    return np.where(index < turns, root, np.roll(groups, turns))


def _step(heard: np.ndarray, said: np.ndarray | int) -> np.ndarray:
    return (heard - OTHER) << LABEL_BITS | (said - OTHER)
