"""A published model: what it was trained on, how well it does on what was held out, and its network."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reward_service.models.examples import Examples, held_out_games, measures
from reward_service.models.memory import Texts
from reward_service.models.settings import Reads, RewardModelSettings

if TYPE_CHECKING:  # training loads torch, reading a recipe does not
    from reward_service.models.training import Network


@dataclass(frozen=True, slots=True)
class RewardModel:
    """`trained_at`: batches that had been shaped when the snapshot was taken."""

    version: int
    trained_at: int
    network: Network
    offset: float
    measured: dict[str, float]
    seconds: float = 0.0  # that training took; not saved

    def values(self, texts: Texts) -> np.ndarray:
        """float64 [turns], in the order of the texts."""
        from reward_service.models.training import values_of

        return values_of(self.network, self.network.read(texts), texts, self.offset)

    def state(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "trained_at": self.trained_at,
            "network": self.network.state(),
            "offset": self.offset,
            "measured": self.measured,
        }


def trained(
    settings: RewardModelSettings, reads: Reads, texts: Texts, examples: Examples, version: int, trained_at: int
) -> RewardModel:
    """Trained on the examples of most episodes and measured on the examples of the rest."""
    from reward_service.models.training import TimeLimit, train, values_of

    started = time.monotonic()
    of_held_out = held_out_games(texts, settings.held_out, settings.seed)[texts.owner]
    held_out = of_held_out[[turns[0] for turns in examples.turns]]
    limit = TimeLimit(settings.seconds)
    network = settings.fresh(reads, texts)
    read = network.read(texts)
    offset = train(network, read, examples.chosen(np.flatnonzero(~held_out)), settings, settings.seed, limit)
    values = values_of(network, read, texts, offset, limit)
    sums = np.array([values[turns].sum() for turns in examples.turns])
    measured = {
        f"held_out_{name}": value for name, value in measures(sums[held_out], examples.target[held_out]).items()
    }
    measured |= {"examples": float((~held_out).sum()), "held_out": float(held_out.sum())}
    return RewardModel(version, trained_at, network, offset, measured, time.monotonic() - started)


def of_state(settings: RewardModelSettings, reads: Reads, state: dict[str, Any]) -> RewardModel:
    network = settings.of_state(reads, state["network"])
    return RewardModel(state["version"], state["trained_at"], network, state["offset"], dict(state["measured"]))
