"""Intention credit by regression: how much better a turn did than its situation promised.

    V(h)      what a situation promises: ridge regression of returns on past batches
    A(t)      turn-level GAE with V, ending in the outcome
    F(h, a)   what meaning such a thing in such a situation brought: ridge regression of A
    advantage = own * A + (1 - own) * F

With `gives: outcome` the learner's credit makes its own A of the outcome, say by a critic on the
policy's hidden states, and what goes on top is (1 - own) / own * F: the same mixture, over `own`.

No turn is valued by a fit that has seen its batch (`ridge`). F shrinks to a constant where it
predicts nothing: what is left is `own` * A, and the optimiser does not mind the scale. Until
there is a past, V is the mean at the same turn and F is 0.

Nothing is refitted beside the traffic: a batch costs two small eigenvalue problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from envs.text.embedding import embed
from reward_service.frame import Intake, ReadingShaper, locked
from reward_service.intentions.corpus import Embed
from reward_service.intentions.reading import EpisodeReading, Reading
from reward_service.intentions.trajectory import turn_returns
from reward_service.shaper import ShapedRewards
from reward_service.shapers.regressed import Regressed
from reward_service.shapers.regressed.features import Axes, features
from reward_service.shapers.regressed.ridge import PastRidge


class RegressedShaper(ReadingShaper):
    name = "regressed"

    def __init__(self, settings: Regressed | None = None, embed: Embed | None = None):
        self.settings = settings or Regressed()
        super().__init__(Intake(self.settings.observations))
        self.embed = embed or self._model
        self.axes: Axes | None = None
        self.values = PastRidge(self.settings.batches)
        self.gains = PastRidge(self.settings.batches)
        self.version = 0  # batches learned from

    def _model(self, texts: Sequence[str]) -> np.ndarray:
        return embed(texts, self.settings.model)

    def embed_ahead(self, seats: Sequence[Reading]) -> None:
        self.embed([gist.text for seat in seats for gist in seat.clustered])

    def answer(self, readings: Sequence[EpisodeReading]) -> list[ShapedRewards]:
        games = [game for each in readings for game in each.seats]
        if not games:
            return []
        if self.axes is None:
            self.axes = Axes.found(games, self.settings.components, self.embed)
        situation, meaning = features(games, self.axes, self.embed)
        both = np.hstack([situation, meaning])
        returns = [turn_returns(each.outcome, each.turns, self.settings.gamma) for each in games]
        values, found = self.values.predict(situation), self.gains.predict(both)
        own = self._advantages(games, by_turn(returns) if values is None else values)
        self.values.learn(situation, np.concatenate(returns))
        self.gains.learn(both, own)
        self.version += 1
        cuts = np.cumsum([each.turns for each in games])[:-1]
        expected = np.zeros(len(own)) if found is None else found
        parts = zip(games, np.split(own, cuts), np.split(expected, cuts), strict=True)
        return [self._shaped(*part, found is not None) for part in parts]

    def _shaped(self, game: Reading, own: np.ndarray, expected: np.ndarray, past: bool) -> ShapedRewards:
        """`past`: whether anything could be expected at all."""
        number, seat = game.identity[1], game.player[1]
        share, version = self.settings.own if past else 1.0, self.version - 1
        if self.settings.gives == "outcome":
            paid = np.append(np.zeros(len(own) - 1, np.float32), np.float32(game.outcome))
            extra = ((1 - share) / share * expected).astype(np.float32)
            return ShapedRewards(number, seat, paid, version, expected_advantages=extra)
        worth = (share * own + (1 - share) * expected).astype(np.float32)
        return ShapedRewards(number, seat, worth, version, kind="advantage")

    def _advantages(self, games: Sequence[Reading], values: np.ndarray) -> np.ndarray:
        """Turn-level GAE: delta = gamma V(h') - V(h), and at the end R - V(h)."""
        gamma, trace = self.settings.gamma, self.settings.trace
        advantages, place = np.empty(len(values)), 0
        for game in games:
            here = values[place : place + game.turns]
            gaps = np.append(gamma * here[1:], game.outcome) - here
            later = 0.0
            for turn in range(len(gaps) - 1, -1, -1):
                later = advantages[place + turn] = gaps[turn] + gamma * trace * later
            place += game.turns
        return advantages

    def measured(self) -> dict[str, float]:
        return {
            "version": float(self.version),
            "value_explained": self.values.explained,
            "advantage_explained": self.gains.explained,
            "value_penalty": float(self.values.penalty),
            "advantage_penalty": float(self.gains.penalty),
        }

    @locked
    def frozen(self) -> Callable[[], dict[str, Any]]:
        axes = None
        if self.axes is not None:
            axes = {
                "mean": self.axes.mean,
                "directions": self.axes.directions,
                "amounts": list(self.axes.amounts),
                "players": [list(player) for player in self.axes.players],
            }
        state = {
            "version": self.version,
            "axes": axes,
            "values": self.values.state(),
            "gains": self.gains.state(),
            "refused": dict(sorted(self.intake.refused.items())),
        }
        return lambda: state

    @locked
    def restore(self, state: dict[str, Any]) -> None:
        saved = state["axes"]
        self.axes = None
        if saved is not None:
            players = tuple((game, seat) for game, seat in saved["players"])
            self.axes = Axes(saved["mean"], saved["directions"], tuple(saved["amounts"]), players)
        self.version = state["version"]
        self.values.restore(state["values"])
        self.gains.restore(state["gains"] if "gains" in state else state["foreseen"])  # its name in earlier versions
        self.intake.restore(state | {"known": []})


def by_turn(returns: Sequence[Sequence[float]]) -> np.ndarray:
    """The mean return at the same turn, turn after turn."""
    turn = np.concatenate([np.arange(len(each)) for each in returns])
    mean = np.bincount(turn, np.concatenate(returns)) / np.bincount(turn)
    return mean[turn]
