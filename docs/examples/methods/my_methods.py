"""A credit method, a loss and a reward shaper of a project's own."""

import numpy as np
from pydantic import Field

from learners.credit.steps import rewards_to_go
from parley import Credit, CreditMethod, Loss, RewardFunction


class Same(CreditMethod):
    """Every token of a turn gets the rewards from there on, times a number."""

    times: float = Field(1.0, gt=0, description="what rewards are multiplied by")

    def credit(self, turns, state):
        returns = rewards_to_go(turns, self.gamma)
        return Credit(np.repeat(self.times * returns, turns.tokens).astype(np.float32), dict(state))


class Plain(Loss):
    """The policy gradient, whatever weights sampled. Nothing is clipped."""

    def policy_term(self, tokens, scale):
        loss = -scale * (tokens.kept * tokens.advantages * tokens.logprobs).sum()
        return loss, tokens.kept.bool() & False


class Brief(RewardFunction):
    """The outcome at the last turn, less a price for every character."""

    price: float = Field(0.01, ge=0, description="what a character costs")

    def rewards(self, episode, seat):
        paid = [-self.price * len(turn.utterance) for turn in episode.turns_of(seat)]
        paid[-1] += episode.outcome[seat]
        return paid
