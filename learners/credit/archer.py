"""ArCHer: critics of whole utterances, learned off-policy; tokens learn from them (Zhou et al. 2024).

    A[t] = min(Q1, Q2)(o_t, utterance) - min(V1, V2)(o_t)        every token of turn t

Each twin has its own chain of targets, from slow copies of both networks, over transitions of
any age:

    Q_i(o, a)  <-  r + gamma * V_i'(o')       nothing after a true end
    V_i(o)     <-  Q_i'(o, a')                a' sampled anew by the present policy
    X'         <-  X' + tau * (X - X')        after every critic step

The critics are MLPs on last hidden states: V reads where the observation ends, Q at the utterance's
last token. After each update its turns join the `critic.replay.turns` newest ones. Features of a policy
that moves would be of no use later, so the states are the base's; a turn costs every rank 8 bytes times
the model's width, 328 MB for 10,000 turns of a width of 4,096. In each critic step Q learns from
`critic.replay.draws` replayed turns, and V from as many of the present batch, with the utterances that
were really said there as a'. Credit is by critics that have not seen the batch.

New critics predict 0 and mislead the policy, which may end with one word that it always says: let them
learn alone first (`critic.warmup_updates`, 10 in the layer). Games without an end need gamma below 1, else
values grow without bound. The paper ran gamma 0.95 and tau 0.1, with 20 iterations of warm-up.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from learners.credit.critics import UtteranceCriticSettings
from learners.credit.method import CreditMethod
from learners.credit.turns import Credit, Turns


class Archer(CreditMethod):
    needs = ("turn_values", "action_values")

    critic: UtteranceCriticSettings = Field(default_factory=UtteranceCriticSettings)

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        advantages = np.repeat(turns.action_values - turns.turn_values, turns.tokens).astype(np.float32)
        return Credit(advantages, dict(state))


def action_value_targets(rewards: np.ndarray, following: np.ndarray, ended: np.ndarray, gamma: float) -> np.ndarray:
    """float64 [..., transitions]: what Q should say. `following` is V' of the next observation,
    for one twin or for both along the first axis; `ended`: bool, a true end."""
    return rewards + gamma * np.where(ended, 0.0, following)


def followed(slow: np.ndarray, present: np.ndarray, tau: float) -> np.ndarray:
    """The slow copy's weights after a step of the present ones'."""
    return slow + tau * (present - slow)
