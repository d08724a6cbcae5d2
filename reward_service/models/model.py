"""A published model: what it was trained on, how well it does on what was held out, and its network."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reward_service.models.examples import Examples, held_out_games, measures
from reward_service.models.memory import Texts
from reward_service.models.training import Course, Network, TimeLimit, train, values_of
from reward_service.settings.models import Reads, RewardModelSettings


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
    """Trained on the examples of most episodes and measured on those of the rest."""
    started = time.monotonic()
    of_held_out = held_out_games(texts, settings.held_out, settings.seed)[texts.owner]
    apart = of_held_out[[turns[0] for turns in examples.turns]]
    limit = TimeLimit(settings.seconds)
    network = fresh(settings, reads, texts)
    read = network.read(texts)
    offset = train(network, read, examples.chosen(np.flatnonzero(~apart)), course(settings), settings.seed, limit)
    values = values_of(network, read, texts, offset, limit)
    sums = np.array([values[turns].sum() for turns in examples.turns])
    measured = {f"held_out_{name}": value for name, value in measures(sums[apart], examples.target[apart]).items()}
    measured |= {"examples": float((~apart).sum()), "held_out": float(apart.sum())}
    return RewardModel(version, trained_at, network, offset, measured, time.monotonic() - started)


def course(settings: RewardModelSettings) -> Course:
    return settings.embedding if settings.kind == "embedding" else settings.transformer


def fresh(settings: RewardModelSettings, reads: Reads, texts: Texts) -> Network:
    if settings.kind == "embedding":
        from reward_service.models.perceptron import Perceptron

        return Perceptron.fresh(settings.embedding, texts, settings.seed)
    from reward_service.models.transformer import Reader

    return Reader(settings.transformer, reads, settings.seed)


def check(settings: RewardModelSettings, reads: Reads) -> None:
    """A model that cannot be loaded is refused at once, not when it is first trained."""
    if settings.kind == "transformer":
        fresh(settings, reads, Texts([], {}, np.empty((0, 0), np.float32)))


def of_state(settings: RewardModelSettings, reads: Reads, state: dict[str, Any]) -> RewardModel:
    if settings.kind == "embedding":
        from reward_service.models.perceptron import Perceptron

        network: Network = Perceptron.of_state(settings.embedding, state["network"])
    else:
        from reward_service.models.transformer import Reader

        network = Reader.of_state(settings.transformer, reads, state["network"])
    return RewardModel(state["version"], state["trained_at"], network, state["offset"], dict(state["measured"]))


def embedder(settings: RewardModelSettings) -> Callable | None:
    """What embeds texts for this kind of model; None where none are wanted."""
    if settings.kind != "embedding":
        return None

    def embed(texts):
        from envs.text.embedding import embed

        return embed(texts, settings.embedding.encoder)

    return embed
