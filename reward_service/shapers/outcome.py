"""The game's own result, paid at a seat's last turn: no shaping at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.episode import Episode
from reward_service.shaper import ShapedRewards, Stateless


class OutcomeShaper(Stateless):
    """reward[T] = outcome in [0, 1]; reward[t] = 0 before."""

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        shaped = []
        for episode in episodes:
            for seat in episode.policy_seats():
                rewards = np.zeros(len(episode.turns_of(seat)), np.float32)
                if len(rewards):
                    rewards[-1] = episode.outcome[seat]
                    shaped.append(ShapedRewards(episode.ticket.number, seat, rewards, version=0))
        return shaped
