"""A small network on sentence embeddings: what was said, in the light of what was shown and said before.

    turn t:   e(said_t)  e(shown_t)  pool(said_<t)  pool(shown_<t)  amounts  seat  log(1 + t)   ->  MLP

e is the embedding reduced to its principal components in the games trained on, scaled to unit mean
variance. A pool is the mean with weights decay^(t-1-i), so it forgets at the same rate however long
the game; before the first turn it is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from reward_service.intentions.gist import Gist
from reward_service.intentions.prototypes import principal_axes, project
from reward_service.models.memory import Texts

if TYPE_CHECKING:
    from reward_service.models.embedding import Embedding

KEPT = 32  # lengths of games whose weights are kept


class Perceptron:
    """`mean`, `axes`: the reduction of embeddings; `amounts`, `players`: names of further columns."""

    whole_games = True  # a game is valued at once

    def __init__(
        self,
        settings: Embedding,
        mean: np.ndarray,
        axes: np.ndarray,
        amounts: Sequence[str],
        players: Sequence[tuple[str, str]],
        seed: int,
    ):
        self.settings, self.mean, self.axes = settings, mean, axes
        self.amounts, self.players = list(amounts), list(players)
        width = 4 * axes.shape[1] + 2 * len(self.amounts) + len(self.players) + 1
        hidden = settings.hidden
        self.net = nn.Sequential(
            *(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        )
        generator = torch.Generator().manual_seed(seed)
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
                nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.net[-1].weight)  # before it has learned anything, every turn is worth the same

    @classmethod
    def fresh(cls, settings: Embedding, texts: Texts, seed: int) -> Perceptron:
        gists = [gist for game in texts.games for gist in game.texts]
        counts = np.bincount([texts.row[gist] for gist in gists], minlength=len(texts.row))
        mean, axes = principal_axes(texts.embeddings, counts, settings.dimensions)
        kept = project(texts.embeddings, mean, axes)
        variance = float(counts @ np.square(kept).mean(axis=1)) / counts.sum()
        amounts = sorted({name for gist in texts.row for name, _ in gist.amounts})
        players = sorted({game.player for game in texts.games})
        return cls(settings, mean, axes / np.float32(max(variance, 1e-12) ** 0.5), amounts, players, seed)

    def read(self, texts: Texts) -> torch.Tensor:
        """Features of every turn: float32 [turns, width]."""
        embedded = project(texts.embeddings, self.mean, self.axes)
        named = {gist: self._amounts(gist) for gist in texts.row}
        blocks = []
        for game in texts.games:
            said = embedded[[texts.row[gist] for gist in game.said]]
            shown = embedded[[texts.row[gist] for gist in game.shown]]
            pool = pooling(game.turns, self.settings.decay)
            seat = np.array([game.player == player for player in self.players], np.float32)
            rest = (
                np.stack([named[gist] for gist in game.said]),
                np.stack([named[gist] for gist in game.shown]),
                np.broadcast_to(seat, (game.turns, len(seat))),
                np.log1p(np.arange(game.turns, dtype=np.float32))[:, None],
            )
            blocks.append(np.concatenate((said, shown, pool @ said, pool @ shown, *rest), axis=1))
        return torch.from_numpy(np.concatenate(blocks).astype(np.float32, copy=False))

    def _amounts(self, gist: Gist) -> np.ndarray:
        known = dict(gist.amounts)
        return np.array([known.get(name, 0.0) for name in self.amounts], np.float32)

    def shares(self, read: torch.Tensor, examples: Sequence[np.ndarray]) -> Iterator[slice]:
        """How many examples go through the network at once: all."""
        yield slice(0, len(examples))

    def values(self, read: torch.Tensor, turns: np.ndarray) -> torch.Tensor:
        return self.net(read[torch.from_numpy(turns)]).squeeze(-1)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.net.parameters())

    def state(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "axes": self.axes,
            "amounts": self.amounts,
            "players": [list(player) for player in self.players],
            "weights": {name: weight.numpy().copy() for name, weight in self.net.state_dict().items()},
        }

    @classmethod
    def of_state(cls, settings: Embedding, state: dict[str, Any]) -> Perceptron:
        players = [tuple(player) for player in state["players"]]
        made = cls(settings, state["mean"], state["axes"], state["amounts"], players, seed=0)
        made.net.load_state_dict({name: torch.from_numpy(weight.copy()) for name, weight in state["weights"].items()})
        return made


@lru_cache(KEPT)
def pooling(turns: int, decay: float) -> np.ndarray:
    """float32 [turns, turns]: row t holds the weights of the turns before t; they add up to 1."""
    age = np.arange(turns)[:, None] - np.arange(turns)[None, :] - 1
    weights = np.where(age >= 0, float(decay) ** np.maximum(age, 0), 0.0)
    return (weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)).astype(np.float32)
