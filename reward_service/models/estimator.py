"""The memory and the published model of a learned shaper, and when the next model is due.

    due -> trained(snapshot), in any thread -> publish

`first` batches pass before the first model is trained, `every` from one training to the next,
counted from snapshot to snapshot. A model whose training failed stays due. Model n+1 follows
model n only; batches, memory and model are saved, a training under way is begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from envs.episode import Episode
from reward_service.intentions.corpus import Embed
from reward_service.intentions.gist import Gist
from reward_service.models.examples import Examples
from reward_service.models.memory import Memory, Texts, Told
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

    def read(self, episodes: Sequence[Episode]) -> tuple[list[Told], dict[Gist, np.ndarray]]:
        """See Memory. The first call refuses a model that could never be trained."""
        if not self.checked:
            self.settings.check(self.reads)
            self.checked = True
        return self.memory.read(episodes)

    def trained(self, texts: Texts, examples: Examples, version: int, trained_at: int) -> RewardModel:
        """Changes nothing."""
        return trained(self.settings, self.reads, texts, examples, version, trained_at)

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
        return found | {f"refused/{reason}": float(n) for reason, n in sorted(self.memory.refused.items())}

    def state(self) -> dict[str, Any]:
        return self.frozen()()

    def frozen(self) -> Callable[[], dict[str, Any]]:
        """A published model is never trained again."""
        batches, memory, model = self.batches, self.memory.frozen(), self.model
        return lambda: {"batches": batches, "memory": memory(), "model": model.state() if model else None}

    def restore(self, state: dict[str, Any]) -> None:
        self.memory.restore(state["memory"])
        self.model = self.result_of(state["model"]) if state["model"] else None
        self.batches = state["batches"]
