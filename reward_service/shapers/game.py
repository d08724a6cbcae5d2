"""What the game itself paid each turn. For games that reward on the way, not only at the end."""

from __future__ import annotations

from envs.episode import Episode
from reward_service.shaper import RewardFunction


class GameReward(RewardFunction):
    """reward[t] = what the game paid the seat for its turn t, up to its next turn."""

    def rewards(self, episode: Episode, seat: str) -> list[float]:
        return [turn.reward for turn in episode.turns_of(seat)]
