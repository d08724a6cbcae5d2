"""Mean returns over (label history, label of the action), in a sliding window of episodes.

Kept as counts and exact sums: a return is held as a whole number of 2^-60, so what has been
added and expired leaves nothing behind, and the order of arrival does not matter. Adding or
expiring an episode costs O(its turns).

A table groups turns by their full history, or by the labels of its last m turns only. Tables
of several granularities and history lengths stand side by side, fine to coarse, for pooling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reward_service.intentions.gist import NOTHING
from reward_service.intentions.trajectory import Player

BITS = 60  # of the fraction of a return

Labels = tuple[Sequence[int], Sequence[int]]  # of the actions, and of what was heard before each


def exact(value: float) -> int:
    return int(value * 2.0**BITS)  # a power of two: nothing is rounded before the fraction is cut off


class Group:
    """Turns that share a key. Whole numbers divide correctly rounded, so `mean` is the double
    nearest to the true mean."""

    __slots__ = ("key", "number", "count", "total")

    def __init__(self, key: tuple, number: int):
        self.key, self.number, self.count, self.total = key, number, 0, 0

    @property
    def mean(self) -> float:
        return self.total / (self.count << BITS)


class Groups(dict):
    """Key -> Group, made when it is asked for and there while it has members. Numbers are never
    given twice."""

    made = 0

    def __missing__(self, key: tuple) -> Group:
        group = self[key] = Group(key, self.made)
        self.made += 1
        return group


class Table:
    """The histories, and under each the groups of one action. `length`: how many of the latest
    turns a history remembers; None: all."""

    def __init__(self, length: int | None = None):
        self.length, self.histories, self.actions = length, Groups(), Groups()

    def find(self, player: Player, labels: Labels) -> tuple[list[Group], list[Group]]:
        """History and action group of each turn."""
        histories = self._whole(player, *labels) if self.length is None else self._latest(player, *labels)
        return histories, [
            self.actions[history.number, said] for history, said in zip(histories, labels[0], strict=True)
        ]

    def _whole(self, player: Player, said: Sequence[int], heard: Sequence[int]) -> list[Group]:
        """Each history is found from the one before it, in constant time."""
        above, before, histories = player, NOTHING, []
        for action, observation in zip(said, heard, strict=True):
            history = self.histories[above, before, observation]
            histories.append(history)
            above, before = history.number, action
        return histories

    def _latest(self, player: Player, said: Sequence[int], heard: Sequence[int]) -> list[Group]:
        steps = list(zip((NOTHING, *said[:-1]), heard, strict=True))
        return [self.histories[player, *steps[max(end - self.length, 0) : end]] for end in range(1, len(steps) + 1)]


class Entry(NamedTuple):
    """One seat's game as it stands in the aggregates."""

    returns: list[int]  # in units of 2^-BITS
    turns: list[Group]  # all of the same player at the same turn
    tables: list[tuple[list[Group], list[Group]]]  # histories and action groups of each table


class Aggregates:
    """Tables, fine to coarse, and the mean by player and turn below them all."""

    def __init__(self, lengths: Sequence[int | None] = (None,)):
        self.tables = [Table(length) for length in lengths]
        self.turns = Groups()

    def add(self, player: Player, labels: Sequence[Labels], returns: Sequence[float]) -> Entry:
        """`labels`: those of each table."""
        amounts = [exact(value) for value in returns]
        entry = Entry(
            amounts,
            [self.turns[player, turn] for turn in range(len(amounts))],
            [table.find(player, each) for table, each in zip(self.tables, labels, strict=True)],
        )
        for groups in _lists(entry):
            for group, amount in zip(groups, amounts, strict=True):
                group.count += 1
                group.total += amount
        return entry

    def remove(self, entry: Entry) -> None:
        _take_out(self.turns, entry.turns, entry.returns)
        for table, (histories, actions) in zip(self.tables, entry.tables, strict=True):
            _take_out(table.histories, histories, entry.returns)
            _take_out(table.actions, actions, entry.returns)


def _lists(entry: Entry) -> list[list[Group]]:
    return [entry.turns, *(groups for table in entry.tables for groups in table)]


def _take_out(kept: Groups, groups: list[Group], returns: list[int]) -> None:
    for group, amount in zip(groups, returns, strict=True):
        group.count -= 1
        group.total -= amount
        if not group.count:
            del kept[group.key]
