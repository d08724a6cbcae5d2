"""Statistics of runs in pairs, where games are strata."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

TWO_SIDED = 1.96  # standard errors of a 95 % interval


def stratified(differences: Sequence[Sequence[float]]) -> tuple[float, float]:
    """`differences`: of each game, those of its pairs. The mean over games of their means, and its standard error."""
    errors = [np.var(each, ddof=1) / len(each) for each in differences]
    return float(np.mean([np.mean(each) for each in differences])), sqrt(sum(errors)) / len(errors)
