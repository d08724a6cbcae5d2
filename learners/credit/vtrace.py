"""V-trace: what the present policy is worth, from what an older one played (Espeholt et al. 2018).

    rho[k] = min(rho_cap, pi / mu)      c[k] = lambda * min(trace_cap, pi / mu)
    v[k]   = V[k] + rho[k] * delta[k] + d[k] * c[k] * (v[k+1] - V[k+1])
    A[k]   = r[k] + d[k] * (V[k+1] + lambda * (v[k+1] - V[k+1])) - V[k]        value target = v[k]

Steps k are tokens with the discounts and lambdas of `poad`, or whole turns, where pi / mu is the
product over the turn's tokens. On tokens of the present policy it is GAE. rho_cap decides what is
estimated (the value of a policy between mu and pi; the present one's without a cap), trace_cap how far
a correction reaches. The advantage carries no rho: the loss weighs every token of older weights
itself (importance_cap), and tokens of the present weights by exactly 1.

`logprobs` belongs to the weights about to be updated and `sampler_logprobs` to those that sampled; where
they are the same weights, hand in the same numbers, for two engines round differently.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from learners.credit.method import ActorCritic
from learners.credit.ragged import backward_sums, segment_sums
from learners.credit.steps import token_steps, turn_steps
from learners.credit.turns import Credit, Turns
from learners.loss.ratios import FAR


class Vtrace(ActorCritic):
    needs = ("values", "bootstrap", "logprobs", "sampler_logprobs")

    step: Literal["token", "turn"] = Field("token", description="what one importance ratio belongs to")
    lambda_w: float | None = Field(
        None, ge=0, le=1, description="step=token: GAE's lambda between the tokens of an utterance; default: 1"
    )
    rho_cap: float = Field(1.0, gt=0, description="cap of the ratio that weighs a temporal difference")
    trace_cap: float = Field(1.0, gt=0, description="cap of the ratio that carries corrections back")

    @model_validator(mode="after")
    def lambda_is_read(self) -> Vtrace:
        if self.lambda_w is not None and self.step == "turn":
            raise ValueError(f"step=turn has no steps inside an utterance for lambda_w={self.lambda_w}")
        return self

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        log_ratios = turns.logprobs - turns.sampler_logprobs
        if self.step == "token":
            lambda_w = 1.0 if self.lambda_w is None else self.lambda_w
            steps = token_steps(turns, self.gamma, 1.0, self.lambda_a, lambda_w)
        else:
            steps = turn_steps(turns, self.gamma, self.lambda_a)
            log_ratios = segment_sums(log_ratios, steps.tokens)
        ratios = truncated_weights(log_ratios, max(self.rho_cap, self.trace_cap))
        rho, reach = np.minimum(ratios, self.rho_cap), np.minimum(ratios, self.trace_cap)
        delta, decay = steps.backups() - steps.values, steps.discounts * steps.traces
        correction = backward_sums(rho * delta, decay * reach)
        advantages = delta + decay * np.append(correction[1:], 0.0)[: len(correction)]
        valued = np.zeros(len(turns.values), bool)
        valued[steps.first] = True
        return Credit(
            advantages=np.repeat(advantages, steps.tokens).astype(np.float32),
            state=dict(state),
            targets=np.repeat(steps.values + correction, steps.tokens).astype(np.float32),
            valued=valued,
        )


def truncated_weights(log_ratios: np.ndarray, cap: float) -> np.ndarray:
    """min(pi / mu, cap): biased towards mu by what is cut off, variance bounded by cap."""
    return np.exp(np.minimum(log_ratios, min(math.log(cap), FAR)))
