"""GRPO: a game is as good as it is better than other games of the same task (Shao et al. 2024).

    R[i] = discounted return of the whole game          A[i] = (R[i] - mean of its group) / F

F is the group's deviation + 1e-6, or 1 with group_std off (Liu et al. 2025), which does not
blow up tasks that nearly always end alike; with learner.loss_aggregation=episode, whose divisor
knows no lengths, that is Dr. GRPO. Every token of a game has the game's advantage. A group all of
whose games end alike teaches nothing: 0, as does a game alone in its group. A game cut off by the
horizon counts what it was paid until then.
"""

from __future__ import annotations

from learners.credit.groups import Grouped, compared, episode_returns, per_token
from learners.credit.turns import Credit, Turns


class Grpo(Grouped):
    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        advantages = compared(episode_returns(turns, self.gamma), turns.group, self.group_std)
        return Credit(per_token(turns, advantages), dict(state))
