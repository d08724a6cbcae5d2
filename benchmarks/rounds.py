"""Contestants that take turns, so that whatever else the machine does falls on all alike.

    round 1: A B C    round 2: C B A    round 3: A B C    ...

A ratio is taken within a round, between neighbours in time; of the rounds the median is
reported, with the quartiles beside it. Seconds are taken twice: on the wall clock, and of
CPU (all threads of this process), which another process on the machine cannot add to.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Sample:
    tokens: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float  # lower quartile
    high: float  # upper quartile
    rounds: int


def spread(values: Sequence[float]) -> Spread:
    if not values:
        raise ValueError("nothing was measured")
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return Spread(median(values), low, high, len(values))


def take_turns(contestants: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[Sample]]:
    """Each contestant does its work once a round and returns the tokens it made."""
    samples: dict[str, list[Sample]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(rounds):
        for name in order:
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            tokens = contestants[name]()
            samples[name].append(Sample(tokens, time.perf_counter() - wall, time.process_time() - cpu))
        order.reverse()
    return samples


def speed(samples: Sequence[Sample]) -> Spread:
    """Tokens a second of wall time."""
    return spread([sample.tokens / sample.seconds for sample in samples])


def ratio(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Spread:
    """How fast `ours` is beside `theirs`, in wall time; 1: as fast."""
    return spread(
        [(a.tokens / a.seconds) / (b.tokens / b.seconds) for a, b in zip(ours, theirs, strict=True)],
    )


def cpu_ratio(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Spread:
    """The same, in CPU time."""
    return spread(
        [(a.tokens / a.cpu_seconds) / (b.tokens / b.cpu_seconds) for a, b in zip(ours, theirs, strict=True)],
    )
