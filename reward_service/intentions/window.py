"""The latest episodes, and what their turns add up to under the labels in use.

Episodes are numbered as they come in. A window that sees the same episodes under other labels
is caught up with the original by numbers alone: `follow`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, islice, pairwise
from math import fsum
from typing import NamedTuple

import numpy as np

from envs.episode import Identity
from reward_service.intentions.aggregation import Columns, Entry, TurnLabels
from reward_service.intentions.means import places, returns_of
from reward_service.intentions.pooling.pooling import Table
from reward_service.intentions.settings import AggregateSettings
from reward_service.intentions.trajectory import CodedGame, Player, turn_returns
from reward_service.intentions.worth import aggregates_for, values_of

Label = Callable[[int, Sequence[int]], np.ndarray]  # (level, codes) -> int64 labels; codes below 0 stay
Centre = dict[Player, np.ndarray]  # mean return at each turn of a player's games
CodedEpisode = tuple[Identity, tuple[CodedGame, ...]]


class WindowEpisode(NamedTuple):
    identity: Identity
    trajectories: tuple[CodedGame, ...]
    entries: list[Entry]  # one for each trajectory


class Window:
    """Labels do not change in it. Without tables nothing is labelled. `first`: number of the oldest episode; `centre`:
    what is taken off returns, turn by turn."""

    def __init__(
        self,
        settings: AggregateSettings,
        tables: Sequence[Table] = (),
        label: Label | None = None,
        first: int = 0,
        centre: Centre | None = None,
    ):
        self.settings, self.label, self.first, self.centre = settings, label, first, centre or {}
        self.level = tables[0][0] if tables else None  # the finest
        self.aggregates = aggregates_for(settings, tables)
        self.episodes: deque[WindowEpisode] = deque()

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def end(self) -> int:
        """The number that the next episode will have."""
        return self.first + len(self)

    def add(self, games: Sequence[CodedEpisode]) -> list[WindowEpisode]:
        seats = [trajectory for _, trajectories in games for trajectory in trajectories]
        turns = self._columns(seats)
        if self.settings.half_life is not None:
            numbers = [self.end + place for place, (_, played) in enumerate(games) for _ in played]
            turns = turns._replace(
                periods=np.repeat(np.array(numbers, np.int64), [len(seat.actions) for seat in seats])
                // self.settings.half_life
            )
        said = list(chain.from_iterable(seat.actions for seat in seats))
        heard = list(chain.from_iterable(seat.observations for seat in seats))
        whole = self.aggregates.add(
            turns,
            lambda level: TurnLabels(self.label(level, said), self.label(level, heard)),
            np.array(said, np.int64),
        )
        entries = iter(whole.span(*ends) for ends in _spans([len(seat.actions) for seat in seats]))
        played = [
            WindowEpisode(identity, trajectories, [next(entries) for _ in trajectories])
            for identity, trajectories in games
        ]
        self.episodes.extend(played)
        return played

    def _columns(self, seats: Sequence[CodedGame]) -> Columns:
        lengths = np.array([len(seat.actions) for seat in seats], np.int64)
        outcomes = np.array([seat.outcome for seat in seats], np.float64)
        index, centre = places(lengths), np.zeros(lengths.sum())
        for seat, (start, end) in zip(seats, _spans(lengths), strict=True) if self.centre else ():
            if (means := self.centre.get(seat.player)) is not None:
                centre[start:end] = means[np.minimum(index[start:end], len(means) - 1)]
        return Columns(
            player=np.repeat(np.array([self.aggregates.player(seat.player) for seat in seats], np.int64), lengths),
            index=index,
            returns=returns_of(outcomes, lengths, self.settings.gamma) - centre,
            centre=centre,
        )

    def expire(self, count: int) -> list[WindowEpisode]:
        """The oldest episodes, taken out."""
        oldest = [self.episodes.popleft() for _ in range(count)]
        if oldest:
            self.aggregates.remove([entry for each in oldest for entry in each.entries])
        self.first += count
        return oldest

    def since(self, number: int) -> list[CodedEpisode]:
        """Episodes from this number on, those that are still there."""
        start = max(number - self.first, 0)
        return [(played.identity, played.trajectories) for played in islice(self.episodes, start, None)]

    def follow(self, games: Sequence[CodedEpisode], first: int, end: int) -> None:
        """Make it hold the episodes numbered from `first` to before `end`; `games`: those of them
        that it has not seen."""
        self.expire(min(first - self.first, len(self)))
        self.first = first
        self.add(games)
        if self.end != end:
            raise ValueError(f"the window ends at episode {self.end}, not {end}")

    def latest(self, count: int) -> list[WindowEpisode]:
        return list(islice(self.episodes, len(self) - count, None))

    def values(self, played: Sequence[WindowEpisode]) -> list[list[np.ndarray]]:
        """What the turns of each episode's trajectories are worth."""
        return _by_trajectory(played, values_of(self._joined(played), self.settings))

    def paid(self, played: Sequence[WindowEpisode]) -> list[list[np.ndarray]]:
        """Their outcomes, at the last turn of each trajectory."""
        return [
            [np.append(np.zeros(len(seat.actions) - 1), seat.outcome) for seat in each.trajectories] for each in played
        ]

    def anchors(self, played: Sequence[WindowEpisode]) -> list[list[np.ndarray]]:
        """int64: turns of equal label histories share a number, counted from 0 in order of appearance.
        Without labels nothing is equal."""
        seats = [seat for each in played for seat in each.trajectories]
        turns = self._columns(seats)
        if not self.aggregates.actions:
            return _by_trajectory(played, np.arange(len(turns.index)))
        heard = self.label(self.level, list(chain.from_iterable(seat.observations for seat in seats)))
        situations = self.aggregates.situations(self._joined(played), turns, heard)
        _, place, found = np.unique(situations, return_index=True, return_inverse=True)
        return _by_trajectory(played, np.argsort(np.argsort(place))[found])

    def clusters(self, played: Sequence[WindowEpisode]) -> list[list[np.ndarray]] | None:
        """int64: the finest cluster of what each turn said; None without labels."""
        if not self.aggregates.actions:
            return None
        said = list(chain.from_iterable(seat.actions for each in played for seat in each.trajectories))
        return _by_trajectory(played, self.label(self.level, said))

    def _joined(self, played: Sequence[WindowEpisode]) -> Entry:
        return self.aggregates.joined([entry for each in played for entry in each.entries])

    def trajectories(self) -> list[CodedGame]:
        return [trajectory for played in self.episodes for trajectory in played.trajectories]

    def metrics(self) -> dict[str, float]:
        """Variance of turn returns, and of what aggregation makes of them. Group means alone cannot
        have more variance than what they are means of; a baseline or pooling may."""
        entry = self._joined(self.episodes)
        found = {"episodes": float(len(self)), "turns": float(len(entry.returns))}
        if len(entry.returns):
            worth = values_of(entry, self.settings)
            returns = entry.returns + entry.centre
            found |= {"variance_before": float(returns.var()), "variance_after": float(worth.var())}
            if self.aggregates.actions:
                found |= self._sizes(entry.groups[self.aggregates.actions[0]])
        return found

    def _sizes(self, groups: np.ndarray) -> dict[str, float]:
        """Of the finest table's groups, seen from the turns: the mean size and the share of turns
        that have a group to themselves, in all and at each turn of a seat."""
        size = self.aggregates.groups.count[groups]
        turn = places(np.array([len(seat.actions) for seat in self.trajectories()]))
        alone = np.bincount(turn, size == 1) / np.bincount(turn)
        return {
            "groups": float(len(np.unique(groups))),
            "group_size": float(size.mean()),
            "singletons": float((size == 1).mean()),
        } | {f"singletons_turn_{number}": float(share) for number, share in enumerate(alone, start=1)}


def centre_of(seats: Sequence[CodedGame], gamma: float) -> Centre:
    """Of these games; whatever their order, the same."""
    returns: dict[Player, list[list[float]]] = {}
    for seat in seats:
        at = returns.setdefault(seat.player, [])
        for turn, value in enumerate(turn_returns(seat.outcome, len(seat.actions), gamma)):
            if turn == len(at):
                at.append([])
            at[turn].append(value)
    return {player: np.array([fsum(each) / len(each) for each in at]) for player, at in sorted(returns.items())}


def _spans(sizes: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise([0, *np.cumsum(sizes, dtype=np.int64).tolist()]))


def _by_trajectory(played: Sequence[WindowEpisode], flat: np.ndarray) -> list[list[np.ndarray]]:
    spans = iter(_spans([len(trajectory.actions) for each in played for trajectory in each.trajectories]))
    return [[flat[slice(*next(spans))] for _ in each.trajectories] for each in played]
