"""HCAPO: a turn that the end of its game makes likelier has done more for it (arXiv 2603.08754).

    A[t]    = A_episode + step_weight * A_step[t]         never less than A_episode in a game that was won
    A_step  = (Q[t] - mean over all turns of the task) / F
    Q[t]    = rho[t] * gamma^(T - t) * R                  (1 - smoothing) Q[t] + smoothing Q[t + 1], if asked
    rho[t]  = p[t] / mean of p over the turns of this game, kept within [1 - clip_low, 1 + clip_high]
    p[t]    = exp(mean of log pi(w_j | end, o_t, w_<j) over the tokens of turn t / temperature)

R is the plain sum of a game's rewards, T its turns, F the deviation of what is compared + 1e-6, or 1 with group_std
off. A_episode compares games as grpo does. The policy itself says in hindsight how likely each utterance was: the end
of the game, which is what the seat was shown at its last turn and after it, is put in front of the whole game, and
one more pass reads all of its turns. Where `end` stands is decided here; what the authors' prompt says could not be
seen. They ran gamma 0.95. Their text does not say when a game that brought a part counts as won: here from `won` on.

A known mistake is to divide by what the policy gave the same utterance without the end. Utterances may grow long under
this credit: watch `learner/hindsight_by_length`, the correlation of rho with the number of tokens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from learners.credit.groups import Stepped, compared, episode_returns
from learners.credit.ragged import segment_sums
from learners.credit.turns import Credit, Turns


class Hcapo(Stepped):
    needs = ("group", "hindsight")

    temperature: float = Field(5.0, gt=0, description="flattens how likely utterances are in hindsight")
    clip_low: float = Field(0.2, ge=0, le=1, description="how far a turn's ratio may lie below 1")
    clip_high: float = Field(0.2, ge=0, description="how far it may lie above 1")
    smoothing: float = Field(0.0, ge=0, lt=1, description="share of the next turn in what a turn is worth")
    won: float = Field(
        1.0, description="return, penalties included, from which a game counts as won and no turn of it is blamed"
    )

    def credit(self, turns: Turns, state: dict[str, float]) -> Credit:
        ratios, spoken = self.ratios(turns), turns.tokens > 0
        figures = {"hindsight_by_length": correlation(ratios[spoken], turns.tokens[spoken])}
        return replace(super().credit(turns, state), figures=figures)

    def steps(self, turns: Turns) -> np.ndarray:
        games, trajectory, spoken = episode_returns(turns, 1.0), turns.trajectory, turns.tokens > 0
        left = np.diff(turns.offsets)[trajectory] - 1 - turns.index
        worth = self.ratios(turns) * self.gamma**left * games[trajectory]
        following = np.where(left > 0, np.roll(worth, -1), worth)
        worth = (1 - self.smoothing) * worth + self.smoothing * following
        step = np.zeros_like(worth)
        step[spoken] = compared(worth[spoken], turns.group[trajectory[spoken]], self.group_std)
        step[(games >= self.won)[trajectory] & (step < 0)] = 0.0
        return step

    def ratios(self, turns: Turns) -> np.ndarray:
        """float64 [turns]: rho; 1 where nothing was said."""
        trajectory, spoken = turns.trajectory, turns.tokens > 0
        likely = np.exp(segment_sums(turns.hindsight, turns.tokens) / np.maximum(turns.tokens, 1) / self.temperature)
        said = np.bincount(trajectory, spoken)
        mean = np.bincount(trajectory, likely * spoken) / np.maximum(said, 1)
        found = np.divide(likely, mean[trajectory], out=np.ones_like(likely), where=spoken)
        return np.clip(found, 1 - self.clip_low, 1 + self.clip_high)


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """0 where one of them does not vary."""
    return float(np.corrcoef(one, other)[0, 1]) if len(one) and np.ptp(one) and np.ptp(other) else 0.0
