"""A contest of methods on games, fair to each: its step size is chosen on seeds that are not reported.

1  every method, tuning seeds, step sizes from those that it begins with on towards where it gets better,
   until the best one lies between two others      -> the step size that is worth most
2  every method at its step size, reported seeds   -> means with 95 % intervals
3  differences to a named baseline, seed by seed: warm start and tasks are the same in a pair
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from math import sqrt

import numpy as np
from scipy.stats import t as student

from benchmarks.lab.store import Say, Store
from benchmarks.lab.trial import TUNING, Game, Method, Record, Sizes, Trial


def area(records: Sequence[Record]) -> float:
    """Under the learning curve."""
    return float(np.mean([-1.0 if record.failure else record.mean for record in records]))


def second_half(records: Sequence[Record]) -> float:
    """The score in the second half of the steps, in full points: what is fast and then forgets is no better."""
    return round(float(np.mean([-1.0 if record.failure else record.late for record in records])), 2)


def whole_and_late(records: Sequence[Record]) -> float:
    """Half of each: what is fast counts, and what is then forgotten does not pay."""
    found = [-1.0 if record.failure else (record.mean + record.late) / 2 for record in records]
    return float(np.mean(found))


Worth = Callable[[Sequence[Record]], float]


@dataclass(frozen=True)
class Contest:
    games: tuple[Game, ...]
    methods: tuple[Method, ...]
    begin: tuple[float, ...]  # the step sizes to try first, neighbours among `rates`
    warm_starts: int
    sizes: Sizes
    tuning_seeds: int = 2
    worth: Worth = area  # of a step size, by the records of its tuning seeds; of equals the smaller one is taken
    rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    left_out: frozenset[tuple[str, str]] = frozenset()  # names of a game and of a method that cannot play it
    tuned_on: Mapping[str, Game] = field(default_factory=dict)  # by a game's name; of others: the game itself
    tuning_updates: int | None = None  # of a run that a step size is chosen by; None: as many as of a reported one
    first_seed: int = 0  # that is reported
    own_warm_starts: bool = False  # of each reported seed, on which nothing has been tuned

    def pairs(self) -> list[tuple[Game, Method]]:
        return [
            (game, method)
            for game in self.games
            for method in self.methods
            if (game.name, method.name) not in self.left_out
        ]

    def trial(self, game: Game, method: Method, rate: float, seed: int) -> Trial:
        sizes, tuning = game.sizes or self.sizes, seed in TUNING
        if tuning and self.tuning_updates is not None:
            sizes = replace(sizes, updates=self.tuning_updates)
        warm_start = seed if self.own_warm_starts and not tuning else seed % self.warm_starts
        return Trial(game, method, rate, seed, warm_start, sizes)

    def tuning(self, store: Store, game: Game, method: Method) -> list[Trial]:
        """As far as is known yet: what is best so far has to have been compared with its neighbours."""
        game = self.tuned_on.get(game.name, game)
        tried = list(self.begin)
        while not store.missing(trials := self._trials(game, method, tried)):
            place = self.rates.index(self._best(store, game, method, tried))
            beside = [rate for rate in self.rates[max(place - 1, 0) : place + 2] if rate not in tried]
            if not beside:
                break
            tried += beside
        return trials

    def best_rate(self, store: Store, game: Game, method: Method) -> float:
        tried = {trial.rate for trial in self.tuning(store, game, method)}
        return self._best(store, self.tuned_on.get(game.name, game), method, tried)

    def _best(self, store: Store, game: Game, method: Method, rates: Iterable[float]) -> float:
        def worth(rate: float) -> float:
            return self.worth([store.get(trial) for trial in self._trials(game, method, [rate])])

        return max(sorted(rates), key=worth)

    def _trials(self, game: Game, method: Method, rates: Iterable[float]) -> list[Trial]:
        seeds = TUNING[: self.tuning_seeds]
        return [self.trial(game, method, rate, seed) for rate in rates for seed in seeds]

    def reported(self, store: Store, game: Game, method: Method, seeds: int) -> list[Trial]:
        rate = self.best_rate(store, game, method)
        return [self.trial(game, method, rate, self.first_seed + number) for number in range(seeds)]

    def run(self, store: Store, seeds: int, processes: int, say: Say) -> None:
        self.tune(store, processes, say)
        self.report(store, seeds, processes, say)

    def to_tune(self, store: Store) -> list[Trial]:
        """What is missing, as far as is known yet, seed by seed."""
        trials = [trial for pair in self.pairs() for trial in self.tuning(store, *pair)]
        return sorted(store.missing(trials), key=lambda trial: trial.seed)

    def tune(self, store: Store, processes: int, say: Say, until: float | None = None) -> None:
        while missing := self.to_tune(store):
            if not store.complete(missing, processes, say, until):
                break

    def report(self, store: Store, seeds: int, processes: int, say: Say, until: float | None = None) -> None:
        """Seed by seed, so that a contest that is stopped has every method at as many seeds."""
        of_pairs = [self.reported(store, *pair, seeds) for pair in self.pairs()]
        in_order = [trial for of_a_seed in zip(*of_pairs, strict=True) for trial in of_a_seed]
        store.complete(in_order, processes, say, until)

    def gradients(self) -> list[Trial]:
        """One of each pair, at the warm start, so that neither seed nor step size says much."""
        return [self.trial(*pair, self.begin[0], 0) for pair in self.pairs()]

    def records(self, store: Store, game: Game, method: Method, seeds: int) -> list[Record]:
        """Of the first reported seeds, up to one that has not been run, so that equal places are equal seeds. None
        before the step size is tuned."""
        if (game.name, method.name) in self.left_out or store.missing(self.tuning(store, game, method)):
            return []
        found = [store.get(trial) for trial in self.reported(store, game, method, seeds)]
        return [*takewhile(lambda record: record is not None, found)]


@dataclass(frozen=True)
class Estimate:
    mean: float
    half: float  # of the 95 % interval
    count: int

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.half:.1f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Student's interval of the mean."""
    count = len(values)
    spread = float(np.std(values, ddof=1)) if count > 1 else float("nan")
    half = float(student.ppf(0.975, count - 1)) * spread / sqrt(count) if count > 1 else float("nan")
    return Estimate(float(np.mean(values)), half, count)


def gain(records: Sequence[Record], baseline: Sequence[Record], of: Callable[[Record], float]) -> Estimate:
    """Difference in pairs of the same seed, warm start and tasks."""
    return estimate([of(one) - of(other) for one, other in zip(records, baseline, strict=True)])
