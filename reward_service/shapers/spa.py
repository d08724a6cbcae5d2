"""SPA: what each turn contributed to the outcome, as learned from many games.

    progress    c_t = f(history, utterance),  f trained so that  sum over t of c_t  is the outcome R
                loss = mean over games of (sum of c_t - R)^2
    reward      r_t = c_t + grounding * g_t   g_t = 1 if the game could execute the utterance, else 0

(Stepwise Progress Attribution.) Before the first estimator is trained the outcome is the last turn's:
c_T = R, c_t = 0 before. Afterwards a turn is worth what f says of it, the last one like the others, and
nothing of a game's own outcome enters its rewards but through f, unless `matched` asks for it:

    matched     c_t <- c_t + (R - sum of c) / T

Training goes on beside the traffic: refit, in a thread, on a snapshot; publish, between two batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from envs.episode import Episode
from envs.settings import GameSettings
from reward_service.intentions.corpus import Embed
from reward_service.models.estimator import Estimator
from reward_service.models.examples import by_game
from reward_service.models.memory import Texts
from reward_service.models.model import RewardModel
from reward_service.models.settings import REWARD_MODELS, AnyRewardModel
from reward_service.models.texts import SeatGame
from reward_service.shaper import ShapedRewards, ShaperSettings


class Spa(ShaperSettings):
    """Stepwise progress attribution: what each turn contributed to the outcome."""

    model: AnyRewardModel = Field(
        default_factory=lambda: REWARD_MODELS.make(REWARD_MODELS.default), description="what values a turn"
    )
    window: int = Field(1024, ge=1, description="episodes that the estimator is trained on, the latest ones")
    first: int = Field(4, ge=1, description="updates before the first estimator is trained")
    every: int = Field(10, ge=1, description="updates from one training to the next")
    grounding: float = Field(0.5, ge=0, description="reward of a turn that the game could execute, beside its progress")
    matched: bool = Field(
        False, description="spread what an episode's progress lacks of its outcome over its turns, equally"
    )

    def make(self, game: GameSettings) -> SpaShaper:
        return SpaShaper(self)


class SpaShaper:
    """`embed`: texts to unit rows; by default the sentence-transformers model of the settings."""

    def __init__(self, settings: Spa | None = None, embed: Embed | None = None):
        self.settings = settings or Spa()
        every, window = self.settings.every, self.settings.window
        self.estimator = Estimator(
            self.settings.model, "game", first=self.settings.first, every=every, window=window, embed=embed
        )
        self._lock = threading.RLock()

    @property
    def version(self) -> int:
        return self.estimator.version

    def prepare(self, episode: Episode) -> None:
        self.estimator.memory.prepare(episode)

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        """All or nothing: a refused episode is counted, and changes nothing else."""
        with self._lock:
            memory = self.estimator.memory
            told, rows = self.estimator.read(episodes)
            memory.add(told, rows)
            progress = self._progress(memory.texts(told))
            memory.expire()
            self.estimator.batches += 1
            return [self._shaped(game, progress[game.place]) for each in told for game in each.games]

    def _progress(self, texts: Texts) -> dict[Any, np.ndarray]:
        """c of every game, by its place."""
        model = self.estimator.model
        if not model or not texts.games:
            return {game.place: np.append(np.zeros(game.turns - 1), game.outcome) for game in texts.games}
        ends = np.cumsum([game.turns for game in texts.games])[:-1]
        values = np.split(model.values(texts), ends)
        return {game.place: each for game, each in zip(texts.games, values, strict=True)}

    def _shaped(self, game: SeatGame, progress: np.ndarray) -> ShapedRewards:
        if self.settings.matched:
            progress = progress + (game.outcome - progress.sum()) / game.turns
        rewards = progress + self.settings.grounding * np.array(game.executable)
        return ShapedRewards(game.identity[1], game.player[1], rewards.astype(np.float32), self.version)

    # Refitting

    def refit(self) -> Callable[[], RewardModel] | None:
        """The snapshot is of now, whenever the work is done."""
        with self._lock:
            if not self.estimator.due:
                return None
            texts = self.estimator.memory.texts()
            version, now = self.version + 1, self.estimator.batches
            return partial(self.estimator.trained, texts, by_game(texts), version, now)

    def publish(self, result: RewardModel) -> None:
        with self._lock:
            self.estimator.publish(result)

    def saved(self, result: RewardModel) -> dict[str, Any]:
        return result.state()

    def result_of(self, saved: dict[str, Any]) -> RewardModel:
        return self.estimator.result_of(saved)

    # What is logged and saved

    def metrics(self) -> dict[str, float]:
        with self._lock:
            return {f"spa/{name}": value for name, value in self.estimator.metrics().items()}

    def state(self) -> dict[str, Any]:
        return self.frozen()()

    def frozen(self) -> Callable[[], dict[str, Any]]:
        with self._lock:
            return self.estimator.frozen()

    def restore(self, state: dict[str, Any]) -> None:
        with self._lock:
            self.estimator.restore(state)
