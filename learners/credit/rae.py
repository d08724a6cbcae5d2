"""RAE: each seat of a game has a baseline of its own, a slow mean of what it brought before (SPIRAL,
arXiv 2506.24119).

    A[t]  = gamma^(T - t) * (R - b[seat])            every token of turn t = 1 .. T
    b     <- decay * b + (1 - decay) * R             after each game, in the order of their numbers; 0 at first

R is the plain sum of a game's rewards. Where seats are unequal, as the one that begins, one baseline for all would
punish a seat for being that seat. No game is compared with itself or with later ones, and groups are not needed. What
counts are games of the policy, one baseline for each seat; they are saved with the run, as the authors' are not. It
takes about 1 / (1 - decay) games until they are warm; up to then advantages have the sign of the rewards.
The authors ran decay 0.95 and gamma 1, and left out turns whose advantage was exactly 0: here they count in the mean.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from learners.credit.groups import episode_returns
from learners.credit.method import SoftCreditMethod
from learners.credit.turns import Credit, Turns


class Rae(SoftCreditMethod):
    needs = ("seat",)

    decay: float = Field(0.95, ge=0, lt=1, description="memory of a seat's baseline, game by game")

    @property
    def remembers(self) -> str:
        return "credit.method to reinforce"

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        state, games = dict(state), episode_returns(turns, 1.0)
        above = np.empty(len(games))
        for number, (seat, game) in enumerate(zip(turns.seat.tolist(), games.tolist(), strict=True)):
            baseline = state.get(f"return/{seat}", 0.0)
            above[number] = game - baseline
            state[f"return/{seat}"] = self.decay * baseline + (1 - self.decay) * game
        left = np.diff(turns.offsets)[turns.trajectory] - 1 - turns.index
        advantages = self.gamma**left * above[turns.trajectory]
        return Credit(np.repeat(advantages, turns.tokens).astype(np.float32), state)
