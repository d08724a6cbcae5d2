"""The game's own result, paid at a seat's last turn: no shaping at all."""

from __future__ import annotations

from envs.episode import Episode
from reward_service.shaper import RewardFunction


class Outcome(RewardFunction):
    """reward[T] = outcome in [0, 1]; reward[t] = 0 before."""

    def rewards(self, episode: Episode, seat: str) -> list[float]:
        return [0.0] * (len(episode.turns_of(seat)) - 1) + [episode.outcome[seat]]
