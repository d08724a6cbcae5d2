"""ARIA's reward model: learns the aggregated rewards, and values fresh utterances in their place.

    target      A(h, a), the mean return of all turns that mean the same in the same situation  (aria)
    model       s = f(history, utterance),  trained on  sum of w (f - A)^2 / sum of w  over the window
    weight      w = 1/2 where |A - .5| < .05,  2 where A < .01 or A > .8,  else 1
    answer      f of each turn, as its advantage for REINFORCE

Intentions are the AriaShaper's, which this one asks and never changes: it aggregates as if alone,
and until there is a model the answer is its own. What the model adds is that it reads the words
and not the cluster, so an utterance in a situation that occurs once is valued by its likes.

Models are trained every `every` updates on the window as it is then, beside the traffic, and only
once there are intentions. A refit of either, space or model, is one job; where both are due they
take turns, so that neither waits for the other for ever.

The version of an answer is the model's; 0: answered by ARIA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from envs.settings import GameSettings
from reward_service.frame import ReadingShaper, locked
from reward_service.intentions.corpus import Embed
from reward_service.intentions.reading import EpisodeReading, Reading
from reward_service.intentions.settings import IntentionSettings
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.worth import values_of
from reward_service.models.estimator import Estimator
from reward_service.models.examples import Examples, by_turn
from reward_service.models.memory import Texts
from reward_service.models.model import RewardModel
from reward_service.models.settings import REWARD_MODELS, AnyRewardModel
from reward_service.shaper import ShapedRewards, ShaperSettings
from reward_service.shapers.aria import AriaShaper


class AriaRm(ShaperSettings):
    """ARIA's reward model: it learns the aggregated rewards and values fresh utterances."""

    intentions: IntentionSettings = Field(default_factory=IntentionSettings)
    model: AnyRewardModel = Field(
        default_factory=lambda: REWARD_MODELS.make(REWARD_MODELS.default), description="what values a turn"
    )
    first: int = Field(10, ge=1, description="updates before the first model is trained")
    every: int = Field(50, ge=1, description="updates from one training to the next")
    middle: float = Field(0.5, description="an aggregated reward near this tells little")
    middle_width: float = Field(0.05, ge=0, description="nearer than this to `middle`: weight `middle_weight`")
    middle_weight: float = Field(0.5, gt=0, description="weight of such a turn in the squared error")
    low: float = Field(0.01, description="an aggregated reward below this has weight `edge_weight`")
    high: float = Field(0.8, description="an aggregated reward above this has weight `edge_weight`")
    edge_weight: float = Field(2.0, gt=0, description="weight of such a turn in the squared error; of all others, 1")

    def make(self, game: GameSettings) -> AriaRmShaper:
        return AriaRmShaper(self)

    @property
    def gives_advantages(self) -> bool:
        return True


class AriaRmShaper(ReadingShaper):
    """`embed`: texts to unit rows, for intentions and model; by default each has the sentence-transformers
    model of its settings. ARIA's lock and intake are this one's."""

    name = "reward_model"

    def __init__(self, settings: AriaRm | None = None, embed: Embed | None = None):
        self.settings = settings or AriaRm()
        self.aria = AriaShaper(self.settings.intentions, embed)
        super().__init__(self.aria.intake, self.aria.lock)
        every, window = self.settings.every, self.aria.settings.aggregate.window
        self.estimator = Estimator(
            self.settings.model, "turn", first=self.settings.first, every=every, window=window, embed=embed
        )
        self._model_next = False  # where space and model are both due

    @property
    def version(self) -> int:
        return self.estimator.version

    def embed_ahead(self, seats: Sequence[Reading]) -> None:
        self.aria.embed_ahead(seats)
        self.estimator.memory.embed_ahead(seats)

    def answer(self, readings: Sequence[EpisodeReading]) -> list[ShapedRewards]:
        new = self.estimator.embedded(readings)
        scores = self.estimator.values(readings, new)  # it may fail, and then nothing has counted
        answers = self.aria.answer(readings)
        self.estimator.take(readings, new)
        games = [game for each in readings for game in each.seats]
        if scores is None:
            return [replace(answer, version=self.version) for answer in answers]
        return [
            replace(answer, rewards=scores[game.place].astype(np.float32), version=self.version, anchors=None)
            for game, answer in zip(games, answers, strict=True)
        ]

    # Refitting

    @locked
    def refit(self) -> Callable[[], RewardModel | IntentionSpace] | None:
        space, model_due = self.aria.refit(), self.aria.space is not None and self.estimator.due
        if space and not (model_due and self._model_next):
            return space
        return self.estimator.training(self._examples) if model_due else None

    def _examples(self, texts: Texts) -> Examples:
        """The aggregated reward of every turn, as of now."""
        found = {
            (played.identity, trajectory.player): values_of(entry, self.aria.settings.aggregate)
            for played in self.aria.window.episodes
            for trajectory, entry in zip(played.trajectories, played.entries, strict=True)
        }
        targets = np.concatenate([found[game.place] for game in texts.games])
        return by_turn(texts, targets, weights_of(targets, self.settings))

    @locked
    def publish(self, result: RewardModel | IntentionSpace) -> None:
        model = isinstance(result, RewardModel)
        (self.estimator if model else self.aria).publish(result)
        self._model_next = not model

    def saved(self, result: RewardModel | IntentionSpace) -> dict[str, Any]:
        if isinstance(result, RewardModel):
            return {"model": result.state()}
        return {"intentions": self.aria.saved(result)}

    def result_of(self, saved: dict[str, Any]) -> RewardModel | IntentionSpace:
        if "model" in saved:
            return self.estimator.result_of(saved["model"])
        return self.aria.result_of(saved["intentions"])

    # What is logged and saved

    @locked
    def metrics(self) -> dict[str, float]:
        return super().metrics() | {f"{self.aria.name}/{name}": value for name, value in self.aria.measured().items()}

    def measured(self) -> dict[str, float]:
        return self.estimator.metrics()

    @locked
    def frozen(self) -> Callable[[], dict[str, Any]]:
        aria, estimator, model_next = self.aria.frozen(), self.estimator.frozen(), self._model_next
        return lambda: {"aria": aria(), "estimator": estimator(), "model_next": model_next}

    @locked
    def restore(self, state: dict[str, Any]) -> None:
        self.aria.restore(state["aria"])
        self.intake.refused.update(state["estimator"]["memory"].get("refused", {}))  # in earlier versions
        self.estimator.restore(state["estimator"])
        self._model_next = state["model_next"]


def weights_of(targets: np.ndarray, settings: AriaRm) -> np.ndarray:
    """float64: of each turn in the squared error, by its aggregated reward."""
    near = np.abs(targets - settings.middle) < settings.middle_width
    edge = (targets < settings.low) | (targets > settings.high)
    return np.select([near, edge], [settings.middle_weight, settings.edge_weight], 1.0)
