"""What the game itself paid each turn. For games that reward on the way, not only at the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.episode import Episode
from reward_service.shaper import ShapedRewards, Stateless


class PaidShaper(Stateless):
    """reward[t] = what the game paid the seat for its turn t, up to its next turn."""

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        shaped = []
        for episode in episodes:
            for seat in episode.policy_seats():
                turns = episode.turns_of(seat)
                if turns:
                    rewards = np.array([turn.reward for turn in turns], np.float32)
                    shaped.append(ShapedRewards(episode.ticket.number, seat, rewards, version=0))
        return shaped
