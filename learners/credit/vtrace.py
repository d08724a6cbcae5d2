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

import numpy as np

from learners.credit import Credit, Turns
from learners.credit.off_policy import truncated_weights
from learners.credit.ragged import backward_sums, segment_sums
from learners.credit.steps import rewards_to_go, token_steps, turn_steps
from learners.settings import CreditSettings


def vtrace(turns: Turns, settings: CreditSettings, state: dict[str, float]) -> Credit:
    log_ratios = turns.logprobs - turns.sampler_logprobs
    if settings.vtrace_step == "token":
        lambda_w = 1.0 if settings.lambda_w is None else settings.lambda_w
        steps = token_steps(turns, settings.gamma, 1.0, settings.lambda_a, lambda_w)
    else:
        steps = turn_steps(turns, settings.gamma, settings.lambda_a)
        log_ratios = segment_sums(log_ratios, steps.tokens)
    ratios = truncated_weights(log_ratios, max(settings.rho_cap, settings.trace_cap))
    rho, reach = np.minimum(ratios, settings.rho_cap), np.minimum(ratios, settings.trace_cap)
    delta, decay = steps.backups() - steps.values, steps.discounts * steps.traces
    correction = backward_sums(rho * delta, decay * reach)
    advantages = delta + decay * np.append(correction[1:], 0.0)[: len(correction)]
    valued = np.zeros(len(turns.values), bool)
    valued[steps.first] = True
    return Credit(
        advantages=np.repeat(advantages, steps.tokens).astype(np.float32),
        returns=rewards_to_go(turns, settings.gamma),
        state=dict(state),
        targets=np.repeat(steps.values + correction, steps.tokens).astype(np.float32),
        valued=valued,
    )
