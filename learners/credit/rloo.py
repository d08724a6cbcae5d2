"""RLOO: REINFORCE with the other games of the task as baseline (Ahmadian et al. 2024).

    R[i] = discounted return of the whole game          A[i] = R[i] - mean of R over the others of its group

Every token of a game has the game's advantage, 0 if it is alone in its group. The baseline
knows nothing of the game it is subtracted from, so the gradient stays unbiased. `reinforce`
with baseline=leave_one_out is its neighbour for games without groups: rewards-to-go, and all
other episodes as the others. A game cut off by the horizon counts what it was paid until then.
"""

from __future__ import annotations

from learners.credit.groups import above_the_others, episode_returns, per_token
from learners.credit.method import SoftCreditMethod
from learners.credit.turns import Credit, Turns


class Rloo(SoftCreditMethod):
    needs = ("group",)

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        advantages = above_the_others(episode_returns(turns, self.gamma), turns.group)
        return Credit(per_token(turns, advantages), dict(state))
