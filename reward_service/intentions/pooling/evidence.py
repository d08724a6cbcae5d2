"""Sharing by evidence: each group counts for as much as groups of its table are seen to differ.

    from coarse to fine    m <- (v sum + noise m) / (v count + noise)

beginning with the mean at the same turn of the same seat. v, how much the groups of a table differ inside those of the
coarser ones, and the noise of single turns are estimated in the window, between games (`intentions.evidence`).

Below the intentions are the gists: m + the same of what turns of the identical gist, in the same group of a short
history, bring more than all of that group. A baseline knows no gists.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from reward_service.intentions.evidence import spreads_of
from reward_service.intentions.means import Grouped, LazyGrouped
from reward_service.intentions.pooling.pooling import GIST, ShorterHistories, Table


class Evidence(ShorterHistories):
    leans_on_turn = True
    by_evidence = True

    coarser: tuple[PositiveInt, ...] = Field(
        (), description="coarser cuts of the hierarchy that fine groups lean on, finest first"
    )
    gists: tuple[NonNegativeInt, ...] = Field(
        (0,), description="histories, in turns, in which members of an intention are told apart; empty: nowhere"
    )

    @model_validator(mode="after")
    def gists_are_inside_groups(self) -> Evidence:
        if alone := sorted({*self.gists} - {*self.histories}):
            raise ValueError(f"gists={alone[0]} is not among the histories {list(self.histories)}")
        return self

    def tables(self, levels: Sequence[int], k: int) -> list[Table]:
        coarser = sorted({each for each in self.coarser if each < k and each in levels}, reverse=True)
        shortest = min(self.histories, default=None)
        return [
            *super().tables(levels, k),
            *((level, shortest) for level in coarser),
            *((GIST, length) for length in self._told),
        ]

    @property
    def _told(self) -> list[int]:
        return sorted({*self.gists}, reverse=True)

    def pooled(self, tables: Sequence[Grouped], actions: Sequence[Grouped], at_turn: LazyGrouped) -> np.ndarray:
        chain = tables[: len(actions) - len(self._told)][::-1]
        turn = at_turn()
        moved = max(turn.pairs().mean, 0.0)  # what all turns of a number have in common is no difference of groups
        found = spreads_of([table.pairs() for table in chain], moved).shared(chain, turn.means())
        return found if tables is not actions else found + self._told_apart(actions, len(found))

    def _told_apart(self, actions: Sequence[Grouped], turns: int) -> np.ndarray:
        """What is said of members beyond their groups, from short histories to long ones."""
        lengths = sorted(set(self.histories), reverse=True)
        more = np.zeros(turns)
        for length, gist in list(zip(self._told, actions[len(actions) - len(self._told) :], strict=True))[::-1]:
            group = actions[1 + lengths.index(length)]
            (spread,), _, noise = spreads_of([gist.pairs()], max(group.pairs().mean, 0.0))
            beyond = gist.sums() - gist.counts() * group.means()
            more = (spread * beyond + noise * more) / (spread * gist.counts() + noise)
        return more
