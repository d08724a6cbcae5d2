"""The first k from which on splitting an intention changes no reward.

    SplitScore(k) = mean over all turns of |R~ at the cut into k+1  -  R~ at the cut into k|

R~ being the mean return of a turn's group. k is the smallest one with SplitScore(j) < epsilon
for all j in [k, k + patience].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import Field

from reward_service.intentions.granularity.granularity import Granularity, Played
from reward_service.intentions.space import IntentionSpace


class Split(Granularity):
    epsilon: float = Field(0.01, gt=0, description="a mean change of reward below this is none")
    patience: int = Field(10, ge=0, description="so many further cuts must change nothing either (tau)")

    company: bool = Field(
        False,
        description="only turns count that share their group at the coarser cut; otherwise all do, as in the paper, "
        "and those that are alone, most of them in long games, change nothing",
    )

    def level(self, space: IntentionSpace, played: Played, seed: int) -> int | None:
        complete = space.levels[-1] == len(space.prototypes)
        return settled_level(split_scores(played, self.company), self.epsilon, self.patience, complete)


def split_scores(played: Played, company: bool = False) -> dict[int, float]:
    """k -> SplitScore(k), for each pair of neighbouring levels."""
    turns = played.turns
    if turns.count == 0:
        raise ValueError("no turns to choose a granularity by")
    scores, before = {}, turns.grouped(turns.histories(played.labels[0]).action)
    for level, row in zip(played.levels, played.labels[1:], strict=False):
        finer = turns.grouped(turns.histories(row).action)
        changed = np.abs(finer.means() - before.means())
        counted = changed[before.counts() > 1] if company else changed
        scores[level] = float(counted.mean()) if len(counted) else 0.0
        before = finer
    return scores


def settled_level(scores: Mapping[int, float], epsilon: float, patience: int, complete: bool) -> int | None:
    """The k of the definition; None if there is none. `complete`: beyond the last score the
    hierarchy has nothing left to split, so scores there are 0."""
    levels = sorted(scores)
    calm = 0  # how many levels in a row, up to the last, changed nothing
    for level in levels:
        calm = calm + 1 if scores[level] < epsilon else 0
        if calm > patience:
            return level - patience
    if not complete:
        return None
    return levels[-1] - calm + 1 if levels else None
