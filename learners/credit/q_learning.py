"""Q-learning with action decomposition: the best next token's value is backed up (Wen et al., NeurIPS 2024).

The policy itself says what is lost by a token, the critic what is left if nothing is,

    Q(o_t, w_<j, w) = V[t, j] + temperature * (log pi(w) - max over w' of log pi(w'))

so the largest Q of a place is its V, and sampling is softmax(Q / temperature): the method explores by
itself, and has no head for each word. An utterance is chosen token by token, and only turns take time:

    j < n    delta = V[t, j+1] - Q(w_j)                     g = delta + lambda_w * g
    j = n    delta = r[t] + gamma * V[t+1, 1] - Q(w_n)      g = delta + gamma * lambda_a * g
    A[t, j] = g                                             value target = g + V[t, j]

That is `poad` in which a token pays temperature * (log of the best token's probability - log pi). Where
no advantage is left on average, at any token, V is the value of the best utterances of the game, and the
likeliest tokens speak them. Each delta is a statement about one transition, true of the optimum whoever
sampled it, so old tokens need no weights: the layer's loss is `mirror_descent`. With the
reference's log-prob in place of the best token's this is the soft form of `poad` (learners/credit/soft.py).
"""

from __future__ import annotations

from pydantic import Field

from learners.credit.critics import TokenCriticSettings
from learners.credit.method import CreditMethod
from learners.credit.poad import token_credit
from learners.credit.soft import token_penalties
from learners.credit.steps import token_steps
from learners.credit.turns import Credit, Turns


class QLearning(CreditMethod):
    needs = ("values", "bootstrap", "logprobs", "best_logprobs")
    any_sampler = True

    temperature: float = Field(
        0.01, gt=0, description="what a token loses by being less likely than the best one: Q per unit of log-prob"
    )
    lambda_a: float = Field(0.95, ge=0, le=1, description="lambda of the temporal differences between turns")
    lambda_w: float = Field(1.0, ge=0, le=1, description="lambda between the tokens of an utterance")
    critic: TokenCriticSettings = Field(default_factory=TokenCriticSettings)

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        steps = token_steps(turns, self.gamma, 1.0, self.lambda_a, self.lambda_w)
        steps.rewards += token_penalties(turns.logprobs, turns.best_logprobs, self.temperature)
        return token_credit(turns, steps, state)
