"""The cut that predicts best what was not looked at.

    error(k) = mean over all turns of (R_t - m_k(h_t, a_t))^2

m_k is what the turns of all other games say of turn t: the mean at the same turn, and what groups of equal label
histories, short to long, add to it by their evidence (`intentions.evidence`). k is the one of the smallest error, of
equal ones the smallest. A cut that is too coarse leaves out what is known, one that is too fine has little to know it
from. Where no cut predicts better than the mean at the turn there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, NonNegativeInt

from reward_service.intentions.evidence import LEAST, spreads_of
from reward_service.intentions.granularity.granularity import Granularity, Played
from reward_service.intentions.means import Grouped, Pairs, pairs_of
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.turns import Turns

STEP = 1.1  # cuts that are nearer to each other are not told apart


class HeldOut(Granularity):
    histories: tuple[NonNegativeInt, ...] = Field(
        (4, 2, 1, 0), description="label histories that predict, in turns, beside whole ones"
    )

    def level(self, space: IntentionSpace, played: Played, seed: int) -> int | None:
        errors, plain = held_out_errors(played, self.histories)
        best = min(errors, key=lambda level: (errors[level], level))
        return best if errors[best] < plain * (1 - LEAST) else None


def held_out_errors(played: Played, histories: Sequence[int]) -> tuple[dict[int, float], float]:
    """k -> error(k), and the error of the mean at the turn alone."""
    turns = played.turns
    if turns.count == 0:
        raise ValueError("no turns to choose a granularity by")
    centred = turns.values - turns.turn_means()
    square = float(np.square(centred).mean())
    lengths = [*sorted(set(histories)), None]
    errors = {}
    for level, labels in zip(played.levels, played.labels, strict=True):
        if not errors or level >= STEP * max(errors) or level == played.levels[-1]:
            found = [_others(turns, turns.histories(labels, length).action, centred) for length in lengths]
            spreads = spreads_of([pairs for pairs, _ in found])
            shared = spreads.shared([grouped for _, grouped in found], np.zeros(turns.count))
            errors[level] = float(np.square(centred - shared).mean())
    return errors, square


def _others(turns: Turns, group: np.ndarray, values: np.ndarray) -> tuple[Pairs, Grouped]:
    """Turns in one group with each turn, less those of its own game."""
    pairs, both = pairs_of(group, turns.game(), values)
    counts = np.bincount(group)[group] - np.bincount(both)[both]
    sums = np.bincount(group, values)[group] - np.bincount(both, values)[both]
    return pairs, Grouped(lambda: counts, lambda: sums)
