"""A control of credit to words: the advantages of whole turns, from a critic that is taught at every word.

POAD's critic has a target at each word, turn-level PPO's at the first word of a turn alone. A method that is as good as
POAD with this one's advantages is good because its critic learns faster, not because words get credit of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from learners.credit.poad import Poad
from learners.credit.turns import Credit, Turns


class TurnAdvantages(Poad):
    """POAD, but each word has the advantage of the first word of its turn, which is that of the turn."""

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        by_word = super().credit(turns, state)
        spoken = turns.tokens[turns.tokens > 0]
        first = by_word.advantages[np.cumsum(spoken) - spoken]
        return replace(by_word, advantages=np.repeat(first, spoken))
