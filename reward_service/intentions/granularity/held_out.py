"""The cut that predicts best what was not looked at, and among cuts that predict alike the one that means most.

    error(k) = mean over all turns of (R_t - m_k(h_t, a_t))^2

m_k is what the turns of all other games say of turn t: the mean at the same turn, and what groups of equal label
histories, short to long, add to it by their evidence (`intentions.evidence`). A cut that is too coarse leaves out what
is known, one that is too fine has little to know it from.

Near its smallest value the error is flat: in long games each turn has a small part in the outcome, and which of many
cuts has the very smallest error is chance. So cuts count as equal whose error is above the smallest by less than two
standard errors of the difference, game by game (about 5 %); of them, k is the one whose clusters are separated best, by
their mean silhouette, and of equal ones the smallest. What the returns cannot tell, the utterances do.
Where no cut predicts better than the mean at the turn there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, NonNegativeInt

from reward_service.intentions.evidence import LEAST, spreads_of
from reward_service.intentions.granularity.granularity import Granularity, Played
from reward_service.intentions.granularity.silhouette import silhouettes
from reward_service.intentions.means import Grouped, Pairs, pairs_of
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.turns import Turns

STEP = 1.1  # cuts that are nearer to each other are not told apart
ALIKE = 2.0  # standard errors


class HeldOut(Granularity):
    histories: tuple[NonNegativeInt, ...] = Field(
        (4, 2, 1, 0), description="label histories that predict, in turns, beside whole ones"
    )

    def level(self, space: IntentionSpace, played: Played, seed: int) -> int | None:
        return level_of(space, *held_out_errors(played, self.histories), seed)


def level_of(space: IntentionSpace, errors: dict[int, np.ndarray], plain: np.ndarray, seed: int) -> int | None:
    """`errors`, `plain`: as `held_out_errors` finds them."""
    best = min(errors.values(), key=np.sum)
    if best.sum() >= plain.sum() * (1 - LEAST):
        return None
    alike = [level for level, error in errors.items() if not surely_above(error, best)]
    separated = silhouettes(space, seed, alike)
    return max(alike, key=lambda level: (separated[level], -level))


def surely_above(error: np.ndarray, best: np.ndarray) -> bool:
    """Of squared errors, game by game."""
    gaps = error - best
    return bool(gaps.sum() > ALIKE * gaps.std() * len(gaps) ** 0.5)


def held_out_errors(played: Played, histories: Sequence[int]) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """k -> squared errors, summed game by game, and those of the mean at the turn alone."""
    turns = played.turns
    if turns.count == 0:
        raise ValueError("no turns to choose a granularity by")
    centred, game = turns.values - turns.turn_means(), turns.game()
    lengths = [*sorted(set(histories)), None]
    errors = {}
    for level, labels in zip(played.levels, played.labels, strict=True):
        if not errors or level >= STEP * max(errors) or level == played.levels[-1]:
            found = [_others(turns, turns.histories(labels, length).action, centred) for length in lengths]
            spreads = spreads_of([pairs for pairs, _ in found])
            shared = spreads.shared([grouped for _, grouped in found], np.zeros(turns.count))
            errors[level] = np.bincount(game, np.square(centred - shared))
    return errors, np.bincount(game, np.square(centred))


def _others(turns: Turns, group: np.ndarray, values: np.ndarray) -> tuple[Pairs, Grouped]:
    """Turns in one group with each turn, less those of its own game."""
    pairs, both = pairs_of(group, turns.game(), values)
    counts = np.bincount(group)[group] - np.bincount(both)[both]
    sums = np.bincount(group, values)[group] - np.bincount(both, values)[both]
    return pairs, Grouped(lambda: counts, lambda: sums)
