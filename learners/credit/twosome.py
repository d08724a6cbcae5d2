"""TWOSOME: the policy is a softmax over the actions a game lists (Tan et al., ICLR 2024).

    score(a) = sum of the log-probs of a's tokens / number of words of a
    log P(a) = score(a) - log sum over the listed b of exp(score(b))

P is one categorical decision a turn, with turn-level GAE for its advantage. It is the sampled
distribution (actors/play/choice.py) and the trained one (learners/batch/decisions.py), so whoever chooses
the action and whoever computes the loss have to score every listed action, chosen or not:

    d log P(chosen) / d log-prob of a token of a = ((a is chosen) - P(a)) / words of a

It needs `rollout.choose_listed: true`. From a policy that already knows how to say what it means the division
by words hides it: set `rollout.choice_length: none`.
"""

from __future__ import annotations

from pydantic import Field

from learners.credit.critics import TokenCriticSettings
from learners.credit.gae import turn_credit
from learners.credit.method import CreditMethod
from learners.credit.turns import Credit, Turns


class Twosome(CreditMethod):
    needs = ("values", "bootstrap")

    lambda_a: float = Field(0.95, ge=0, le=1, description="GAE's lambda between turns")
    critic: TokenCriticSettings = Field(default_factory=TokenCriticSettings)

    def check(self, episodes: int, group_size: int, choose_listed: bool) -> None:
        if not choose_listed:
            raise ValueError(
                "trains a choice among listed actions, which rollout.choose_listed=true makes; "
                "learner.credit.method=gae is the same credit for free text"
            )

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        return turn_credit(turns, self.gamma, self.lambda_a, state)
