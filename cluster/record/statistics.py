"""95 % intervals for what a run measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95


def wilson_interval(wins: float, games: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson score interval of a win rate. Unlike wins/games +- z*sd it stays inside
    [0, 1] and is not empty when all or none of the games were won."""
    if not 0 <= wins <= games:
        raise ValueError(f"{wins} wins in {games} games")
    if games == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, scale = wins / games, 1 + z * z / games
    middle = (rate + z * z / (2 * games)) / scale
    half = z / scale * sqrt(rate * (1 - rate) / games + z * z / (4 * games * games))
    # at the ends the bound is exactly the rate; rounding must not push it past
    return (0.0 if wins == 0 else max(0.0, middle - half)), (1.0 if wins == games else min(1.0, middle + half))


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Student's t interval of a mean. One value says nothing of its spread: the interval is infinite."""
    from scipy.special import stdtrit

    values = [float(value) for value in values]
    if not values:
        raise ValueError("no values to take the mean of")
    mean = fmean(values)
    if len(values) == 1:
        return float("-inf"), float("inf")
    half = float(stdtrit(len(values) - 1, (1 + confidence) / 2)) * stdev(values) / sqrt(len(values))
    return mean - half, mean + half
