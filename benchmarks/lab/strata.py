"""Statistics of runs in pairs, where games are strata.

A pair is two runs of equal game, seed and warm start. The gain of a method is the mean over games of its mean
difference, and what pairs of one game differ by says nothing about another game:

    gain    mean over games g of d_g          d_g = mean of the n_g differences of a game
    error   sqrt(sum of v_g) / games          v_g = variance of the differences / n_g
    degrees of freedom, by Welch              (sum of v_g)^2 / sum of v_g^2 / (n_g - 1)

Of many methods some are ahead by chance. `corrected` therefore compares each one's |gain / error| with the largest
of all methods where signs are drawn: if a method is worth what its baseline is, each pair could as well be the other
way round. All methods of a pair turn around together, so methods that are much alike are corrected by less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
from scipy.stats import t as student

LEAST = 1e-12  # error of a gain, for pairs that do not differ at all
DRAWS = 20_000

Pairs = Sequence[Sequence[float]]  # of each game, the differences of its pairs


def stratified(differences: Pairs) -> tuple[float, float]:
    """The mean over games of their means, and its standard error."""
    return float(np.mean([np.mean(each) for each in differences])), sqrt(sum(_errors(differences))) / len(differences)


def _errors(differences: Pairs) -> list[float]:
    """Squared, of each game's mean."""
    return [float(np.var(each, ddof=1)) / len(each) for each in differences]


def half_width(differences: Pairs) -> float:
    """Of the 95 % interval, by Welch's degrees of freedom."""
    errors = _errors(differences)
    spread = sum(error**2 / (len(each) - 1) for error, each in zip(errors, differences, strict=True))
    freedom = sum(errors) ** 2 / spread if spread else 1.0
    return float(student.ppf(0.975, freedom)) * stratified(differences)[1]


def corrected(methods: Mapping[str, Pairs], draws: int = DRAWS, seed: int = 0) -> dict[str, float]:
    """Two-sided p of each method against the one baseline of all pairs, for the best of so many (max-t). Every
    method has the same pairs."""
    if not methods:
        return {}
    games = [np.stack(each, axis=1) for each in zip(*map(list, methods.values()), strict=True)]  # [pairs, methods]
    if not all(np.isfinite(each).all() for each in games):
        raise ValueError("a gain is not a number: look for runs that failed at once")
    generator = np.random.default_rng(seed)
    largest = np.zeros(draws)
    means, squares = np.zeros((draws, len(methods))), np.zeros((draws, len(methods)))
    for found in games:
        count = len(found)
        mean = generator.choice([-1.0, 1.0], (draws, count)) @ found / count
        means += mean
        squares += ((found**2).sum(0) - count * mean**2).clip(0) / (count * (count - 1))
    largest = np.abs(means / np.sqrt(squares.clip(LEAST**2))).max(1)
    reached = {}
    for name, differences in methods.items():
        gain, error = stratified(differences)
        least = abs(gain) / max(error, LEAST / len(games)) * (1 - 1e-9)  # signs that are all alike give it again
        reached[name] = (1 + int((largest >= least).sum())) / (1 + draws)
    return reached
