"""How much turns of one group have in common, as the window shows it, and what each is then expected to bring.

Groups lie inside each other, coarse to fine: the same intention whatever was before, the same after the same turn,
and so on. Turns of one game have one outcome, so what a group has in common is seen between games alone:

    V = mean of x_i x_j over all pairs of turns in one group, of different games      x: returns, less their mean

in which the noise of single games is no part. A finer table adds  v = V - V of the coarser ones - doubt,  if that is
above 0; the doubt is one standard error of V. What is left of the mean of x^2 is noise, and from coarse to fine

    m <- (v sum + noise m) / (v count + noise)

which is the best linear estimate where groups differ by v and turns of one group by noise. A table without evidence
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reward_service.intentions.means import Grouped, Pairs

LEAST = 1e-12  # noise, so that nothing is divided by 0


class Spreads(NamedTuple):
    """`of`: each table's variance between its groups, inside those of coarser tables."""

    of: list[float]
    explained: float  # their sum
    noise: float  # variance inside the finest groups

    def shared(self, tables: Sequence[Grouped], prior: np.ndarray) -> np.ndarray:
        """float64 [turns]: what is expected of each, `prior` before any table. `tables`: coarse to fine."""
        found = prior
        for table, spread in zip(tables, self.of, strict=True):
            if spread:
                found = (spread * table.sums() + self.noise * found) / (spread * table.counts() + self.noise)
        return found


def spreads_of(tables: Sequence[Pairs], explained: float = 0.0) -> Spreads:
    """`tables`: coarse to fine; `explained`: by coarser ones yet."""
    found = []
    for pairs in tables:
        more = 0.0
        if pairs.count:
            doubt = max(pairs.square - pairs.mean, 0.0) * (2 / pairs.count) ** 0.5
            more = max(pairs.mean - explained - doubt, 0.0)
        found.append(more)
        explained += more
    square = tables[0].square if tables else 0.0
    return Spreads(found, explained, max(square - explained, LEAST))
