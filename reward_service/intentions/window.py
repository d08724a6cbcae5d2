"""The latest episodes, and what their turns add up to under the labels in use."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from reward_service.intentions.aggregation import Aggregates, Entry, Labels
from reward_service.intentions.pooling import UNIT, values_of
from reward_service.intentions.settings import PoolingSettings
from reward_service.intentions.trajectory import Trajectory, turn_returns

Identity = tuple[str, int, int]  # run, number of the ticket, attempt
Label = Callable[[int, Sequence[int]], list[int]]  # (level, codes) -> intentions; codes below 0 stay


class Played(NamedTuple):
    identity: Identity
    trajectories: tuple[Trajectory, ...]
    entries: list[Entry]  # one for each trajectory


class Window:
    """Labels do not change in it: relabelling makes another window of the same episodes. Without
    tables nothing is labelled."""

    def __init__(
        self, settings: PoolingSettings, tables: Sequence[tuple[int, int | None]] = (), label: Label | None = None
    ):
        self.settings, self.resolutions, self.label = settings, list(tables), label
        self.aggregates = Aggregates([length for _, length in tables])
        self.episodes: deque[Played] = deque()

    def add(self, identity: Identity, trajectories: Sequence[Trajectory]) -> Played:
        played = Played(identity, tuple(trajectories), [self._enter(each) for each in trajectories])
        self.episodes.append(played)
        return played

    def _enter(self, trajectory: Trajectory) -> Entry:
        by_level = {level: self._labels(trajectory, level) for level in {level for level, _ in self.resolutions}}
        returns = turn_returns(trajectory.outcome, len(trajectory.actions), self.settings.gamma)
        return self.aggregates.add(trajectory.player, [by_level[level] for level, _ in self.resolutions], returns)

    def _labels(self, trajectory: Trajectory, level: int) -> Labels:
        return self.label(level, trajectory.actions), self.label(level, trajectory.observations)

    def expire(self) -> Played:
        """The oldest episode, taken out."""
        oldest = self.episodes.popleft()
        for entry in oldest.entries:
            self.aggregates.remove(entry)
        return oldest

    def relabelled(self, tables: Sequence[tuple[int, int | None]], label: Label) -> Window:
        other = Window(self.settings, tables, label)
        for played in self.episodes:
            other.add(played.identity, played.trajectories)
        return other

    def trajectories(self) -> list[Trajectory]:
        return [trajectory for played in self.episodes for trajectory in played.trajectories]

    def metrics(self) -> dict[str, float]:
        """Variance of turn returns, and of what aggregation makes of them. Group means alone cannot
        have more variance than what they are means of; a baseline or pooling may."""
        entries = [entry for played in self.episodes for entry in played.entries]
        found = {"episodes": float(len(self.episodes)), "turns": float(sum(len(entry.returns) for entry in entries))}
        if not found["turns"]:
            return found
        before = np.array([amount * UNIT for entry in entries for amount in entry.returns])
        after = np.concatenate([values_of(entry, self.settings) for entry in entries])
        found |= {"variance_before": float(before.var()), "variance_after": float(after.var())}
        if self.resolutions:
            found |= self._sizes(entries)
        return found

    def _sizes(self, entries: Sequence[Entry]) -> dict[str, float]:
        """Of the finest table's groups, seen from the turns: the mean size and the share of turns
        that have a group to themselves, in all and at each turn of a seat."""
        alone, turns, size = Counter(), Counter(), 0
        for entry in entries:
            for turn, group in enumerate(entry.tables[0][1], start=1):
                turns[turn] += 1
                alone[turn] += group.count == 1
                size += group.count
        every = turns.total()
        return {
            "groups": float(len(self.aggregates.tables[0].actions)),
            "group_size": size / every,
            "singletons": alone.total() / every,
        } | {f"singletons_turn_{turn}": alone[turn] / turns[turn] for turn in sorted(turns)}
