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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from envs.settings import GameSettings
from reward_service.frame import Intake, ReadingShaper, locked
from reward_service.intentions.corpus import Embed
from reward_service.intentions.reading import EpisodeReading, Reading
from reward_service.models.estimator import Estimator
from reward_service.models.examples import by_game
from reward_service.models.model import RewardModel
from reward_service.models.settings import REWARD_MODELS, AnyRewardModel
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


class SpaShaper(ReadingShaper):
    """`embed`: texts to unit rows; by default the sentence-transformers model of the settings."""

    name = "spa"

    def __init__(self, settings: Spa | None = None, embed: Embed | None = None):
        self.settings = settings or Spa()
        every, window = self.settings.every, self.settings.window
        super().__init__(Intake(window=window))
        self.estimator = Estimator(
            self.settings.model, "game", first=self.settings.first, every=every, window=window, embed=embed
        )

    @property
    def version(self) -> int:
        return self.estimator.version

    def embed_ahead(self, seats: Sequence[Reading]) -> None:
        self.estimator.memory.embed_ahead(seats)

    def answer(self, readings: Sequence[EpisodeReading]) -> list[ShapedRewards]:
        new = self.estimator.embedded(readings)
        progress = self.estimator.values(readings, new)  # it may fail, and then nothing has counted
        self.estimator.take(readings, new)
        self.intake.remember(readings)
        return [
            self._shaped(game, last_turn(game) if progress is None else progress[game.place])
            for each in readings
            for game in each.seats
        ]

    def _shaped(self, game: Reading, progress: np.ndarray) -> ShapedRewards:
        if self.settings.matched:
            progress = progress + (game.outcome - progress.sum()) / game.turns
        rewards = progress + self.settings.grounding * np.array(game.executable)
        return ShapedRewards(game.identity[1], game.player[1], rewards.astype(np.float32), self.version)

    # Refitting

    @locked
    def refit(self) -> Callable[[], RewardModel] | None:
        return self.estimator.training(by_game) if self.estimator.due else None

    @locked
    def publish(self, result: RewardModel) -> None:
        self.estimator.publish(result)

    def saved(self, result: RewardModel) -> dict[str, Any]:
        return result.state()

    def result_of(self, saved: dict[str, Any]) -> RewardModel:
        return self.estimator.result_of(saved)

    # What is logged and saved

    def measured(self) -> dict[str, float]:
        return self.estimator.metrics()

    @locked
    def frozen(self) -> Callable[[], dict[str, Any]]:
        estimator, intake = self.estimator.frozen(), self.intake.frozen()
        return lambda: estimator() | intake()

    @locked
    def restore(self, state: dict[str, Any]) -> None:
        self.estimator.restore(state)
        self.intake.restore(state if "known" in state else state["memory"])  # there in earlier versions


def last_turn(game: Reading) -> np.ndarray:
    """The outcome is the last turn's."""
    return np.append(np.zeros(game.turns - 1), game.outcome)
