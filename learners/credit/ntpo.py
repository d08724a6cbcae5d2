"""NTPO: GAE in which every token is a step of its own, so time passes inside an utterance too.

    j < n    delta = gamma_w * V[t, j+1] - V[t, j]           g = delta + gamma_w * lambda_w * g
    j = n    delta = r[t] + gamma * V[t+1, 1] - V[t, n]      g = delta + gamma * lambda_a * g

gamma_w and lambda_w are gamma and lambda_a unless set, which is token-level PPO as it is
commonly written. A word's credit then shrinks with its distance from the utterance's end, and
what is optimised prefers short utterances: an utterance of n tokens counts for gamma_w^(n-1) of
its worth. With gamma_w = 1 the method is `poad` at the same lambdas.
"""

from __future__ import annotations

from pydantic import Field

from learners.credit.method import ActorCritic
from learners.credit.poad import token_credit
from learners.credit.steps import token_steps
from learners.credit.turns import Credit, Turns


class Ntpo(ActorCritic):
    gamma_w: float | None = Field(
        None, gt=0, le=1, description="discount between the tokens of an utterance; default: gamma"
    )
    lambda_w: float | None = Field(
        None, ge=0, le=1, description="GAE's lambda between the tokens of an utterance; default: lambda_a"
    )

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        gamma_w = self.gamma if self.gamma_w is None else self.gamma_w
        lambda_w = self.lambda_a if self.lambda_w is None else self.lambda_w
        steps = token_steps(turns, self.gamma, gamma_w, self.lambda_a, lambda_w)
        return token_credit(turns, steps, state)
