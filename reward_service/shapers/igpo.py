"""IGPO: a turn is worth how much nearer it brought the policy to the right answer (arXiv 2510.14967).

    P[t]   = exp(mean log-prob of a token of the answer, before turn t)          t = 1 .. T
    r[t]   = P[t + 1] - P[t],  or  log P[t + 1] - log P[t]  with difference=log          t < T
    r[T]   = outcome

For games in which something is to be found out and whose `answers` say what would have been right: twenty_questions,
guess_my_city, wordle. The policy itself says how likely it finds that, with rollout.score_answers=true, by the weights
that the worker holds when the game is over. A turn next to one that was not scored, for want of room, is paid 0.

The authors give gains and outcomes each mean 0 and deviation 1 in a group of games of one task, before they are
summed; here credit does what it does with any rewards, so learner.credit=reinforce with gamma 1 sums them, and `gain`
weighs them against the outcome. They subtract the mean at the same place of a token, which their text does not say and
which is not copied. The form of their penalty for a wrong format could not be verified, and there is none here.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from envs.episode import Episode
from reward_service.shaper import RewardFunction


class Igpo(RewardFunction):
    """The rise of the right answer's probability, and the outcome at the end."""

    difference: Literal["probability", "log"] = Field("probability", description="what rises: P, or its logarithm")
    gain: float = Field(1.0, ge=0, description="weight of the rise")

    @property
    def reads_answers(self) -> bool:
        return True

    def rewards(self, episode: Episode, seat: str) -> list[float]:
        scored = [turn.answer_logprob for turn in episode.turns_of(seat)]
        if len(scored) > 1 and scored == [None] * len(scored) and episode.terminated:
            raise ValueError(
                f"reward.shaper=igpo: episode {episode.ticket.number} of {episode.ticket.game} does not tell how "
                "likely the right answer was; set rollout.score_answers=true, in a game that has answers, and "
                "rollout.engine.max_context so that they fit"
            )
        before = np.array([np.nan if each is None else each for each in scored])
        rise = np.diff(np.exp(before) if self.difference == "probability" else before)
        return [*(self.gain * np.nan_to_num(rise)).tolist(), episode.outcome[seat]]
