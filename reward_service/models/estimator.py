"""The memory and the published model of a learned shaper, and when the next model is due.

    new = embedded(batch) -> values(batch, new) -> take(batch, new), once nothing can fail any more
    due -> trained(snapshot), in any thread -> publish

`first` batches pass before the first model is trained, `every` from one training to the next,
counted from snapshot to snapshot. A model whose training failed stays due. Model n+1 follows
model n only; batches, memory and model are saved, a training under way is begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from reward_service.intentions.corpus import Embed, NewGists
from reward_service.intentions.reading import EpisodeReading, Place
from reward_service.models.examples import Examples
from reward_service.models.memory import Memory, Texts
from reward_service.models.model import RewardModel, of_state, trained
from reward_service.models.settings import Reads, RewardModelSettings

FEWEST_EPISODES = 10  # in the memory, to train on nine of them


class Estimator:
    def __init__(
        self,
        settings: RewardModelSettings,
        reads: Reads,
        *,
        first: int,
        every: int,
        window: int,
        embed: Embed | None = None,
    ):
        self.settings, self.reads, self.first, self.every = settings, reads, first, every
        self.memory = Memory(window, None if settings.embed is None else embed or settings.embed)
        self.model: RewardModel | None = None
        self.batches = 0  # shaped so far
        self.checked = False  # that the settings' model can be loaded

    @property
    def version(self) -> int:
        return self.model.version if self.model else 0

    @property
    def age(self) -> int:
        """Batches since the snapshot that the model was trained on, or since the beginning."""
        return self.batches - (self.model.trained_at if self.model else 0)

    @property
    def due(self) -> bool:
        return self.age >= (self.every if self.model else self.first) and len(self.memory.episodes) >= FEWEST_EPISODES

    def embedded(self, readings: Sequence[EpisodeReading]) -> NewGists:
        """What is new in a batch. Changes nothing; the first call refuses a model that could never be trained."""
        if not self.checked:
            self.settings.check(self.reads)
            self.checked = True
        return self.memory.embedded(readings)

    def values(self, readings: Sequence[EpisodeReading], new: NewGists) -> dict[Place, np.ndarray] | None:
        """float64 [turns]: what the model says of each game of a batch. None: there is no model. Changes nothing."""
        if self.model is None:
            return None
        texts = self.memory.texts(readings, new)
        values = texts.by_game(self.model.values(texts)) if texts.games else []
        return {game.place: found for game, found in zip(texts.games, values, strict=True)}

    def take(self, readings: Sequence[EpisodeReading], new: NewGists) -> None:
        """A batch into the memory."""
        self.memory.add(readings, new)
        self.batches += 1

    def training(self, examples_of: Callable[[Texts], Examples]) -> Callable[[], RewardModel]:
        """The next model. The snapshot is of now, whenever the work is done; it changes nothing."""
        texts = self.memory.texts()
        return partial(trained, self.settings, self.reads, texts, examples_of(texts), self.version + 1, self.batches)

    def publish(self, model: RewardModel) -> None:
        if model.version != self.version + 1:
            raise ValueError(f"reward model {model.version} cannot follow version {self.version}")
        self.model = model

    def result_of(self, saved: dict[str, Any]) -> RewardModel:
        """`saved`: the state of a model."""
        return of_state(self.settings, self.reads, saved)

    def metrics(self) -> dict[str, float]:
        found = {
            "version": float(self.version),
            "age": float(self.age),
            "episodes": float(len(self.memory.episodes)),
            "texts": float(len(self.memory.corpus)),
        }
        if self.model:
            found |= self.model.measured | {"training_seconds": self.model.seconds}
        return found

    def frozen(self) -> Callable[[], dict[str, Any]]:
        """A published model is never trained again."""
        batches, memory, model = self.batches, self.memory.frozen(), self.model
        return lambda: {"batches": batches, "memory": memory(), "model": model.state() if model else None}

    def restore(self, state: dict[str, Any]) -> None:
        self.memory.restore(state["memory"])
        self.model = self.result_of(state["model"]) if state["model"] else None
        self.batches = state["batches"]
