"""Intention credit by regression: how much better a turn did than its situation promised.

    V(h)      what a situation promises: ridge regression of returns on past batches
    A(t)      turn-level GAE with V, ending in the outcome
    F(h, a)   what meaning such a thing in such a situation brought: ridge regression of A
    advantage = own * A + (1 - own) * F

With `gives: outcome` the learner's credit makes its own A of the outcome, say by a critic on the
policy's hidden states, and what goes on top is (1 - own) / own * F: the same mixture, over `own`.

No turn is valued by a fit that has seen its batch (`ridge`). F shrinks to a constant where it
foresees nothing: what is left is `own` * A, and the optimiser does not mind the scale. Until
there is a past, V is the mean at the same turn and F is 0.

Nothing is refitted beside the traffic: a batch costs two small eigenvalue problems. A call
of `shape` is all or nothing: a refused episode is counted, and changes nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from envs.episode import Episode
from envs.text.embedding import embed
from reward_service.intentions.gist import Gist
from reward_service.intentions.reading import EpisodeRefused, Reading, check, read
from reward_service.intentions.trajectory import turn_returns
from reward_service.shaper import ShapedRewards
from reward_service.shapers.regressed import Regressed
from reward_service.shapers.regressed.features import Axes, Embed, features
from reward_service.shapers.regressed.ridge import PastRidge


class RegressedShaper:
    def __init__(
        self,
        settings: Regressed | None = None,
        embed: Embed | None = None,
    ):
        self.settings = settings or Regressed()
        self._embed, self.observations = embed or self._model, self.settings.observations
        self.axes: Axes | None = None
        self.values = PastRidge(self.settings.batches)
        self.gains = PastRidge(self.settings.batches)
        self.version = 0  # batches learned from
        self._refused: Counter[str] = Counter()

    def _model(self, texts: Sequence[str]) -> np.ndarray:
        return embed(texts, self.settings.model)

    def prepare(self, episode: Episode) -> None:
        gists = [gist for reading in read(episode, self.observations) for gist in (*reading.said, *reading.heard)]
        self._embed([gist.text for gist in gists if isinstance(gist, Gist)])

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        for episode in episodes:
            try:
                check(episode)
            except EpisodeRefused as refused:
                self._refused[refused.reason] += 1
                raise
        readings = [(episode.ticket.number, each) for episode in episodes for each in read(episode, self.observations)]
        if not readings:
            return []
        games = [reading for _, reading in readings]
        if self.axes is None:
            self.axes = Axes.found(games, self.settings.components, self._embed)
        situation, meaning = features(games, self.axes, self._embed)
        both = np.hstack([situation, meaning])
        returns = [turn_returns(each.outcome, len(each.said), self.settings.gamma) for each in games]
        values, found = self.values.predict(situation), self.gains.predict(both)
        own = self._advantages(games, by_turn(returns) if values is None else values)
        self.values.learn(situation, np.concatenate(returns))
        self.gains.learn(both, own)
        self.version += 1
        cuts = np.cumsum([len(each.said) for each in games])[:-1]
        expected = np.zeros(len(own)) if found is None else found
        parts = zip(readings, np.split(own, cuts), np.split(expected, cuts), strict=True)
        return [self._shaped(number, reading, *part, found is not None) for (number, reading), *part in parts]

    def _shaped(
        self, number: int, reading: Reading, own: np.ndarray, expected: np.ndarray, past: bool
    ) -> ShapedRewards:
        """`past`: whether anything could be expected at all."""
        share, version = self.settings.own if past else 1.0, self.version - 1
        if self.settings.gives == "outcome":
            paid = np.append(np.zeros(len(own) - 1, np.float32), np.float32(reading.outcome))
            extra = ((1 - share) / share * expected).astype(np.float32)
            return ShapedRewards(number, reading.player[1], paid, version, expected_advantages=extra)
        worth = (share * own + (1 - share) * expected).astype(np.float32)
        return ShapedRewards(number, reading.player[1], worth, version, kind="advantage")

    def _advantages(self, games: Sequence[Reading], values: np.ndarray) -> np.ndarray:
        """Turn-level GAE: delta = gamma V(h') - V(h), and at the end R - V(h)."""
        gamma, trace = self.settings.gamma, self.settings.trace
        advantages, place = np.empty(len(values)), 0
        for game in games:
            here = values[place : place + len(game.said)]
            gaps = np.append(gamma * here[1:], game.outcome) - here
            later = 0.0
            for turn in range(len(gaps) - 1, -1, -1):
                later = advantages[place + turn] = gaps[turn] + gamma * trace * later
            place += len(game.said)
        return advantages

    def refit(self) -> Callable[[], Any] | None:
        return None

    def publish(self, result: Any) -> None:
        raise RuntimeError("intention credit by regression has nothing to publish: it learns with each batch")

    def metrics(self) -> dict[str, float]:
        return {
            "regressed/version": float(self.version),
            "regressed/value_explained": self.values.explained,
            "regressed/advantage_explained": self.gains.explained,
            "regressed/value_penalty": float(self.values.penalty),
            "regressed/advantage_penalty": float(self.gains.penalty),
        } | {f"regressed/refused/{reason}": float(count) for reason, count in sorted(self._refused.items())}

    def state(self) -> dict[str, Any]:
        axes = None
        if self.axes is not None:
            axes = {
                "mean": self.axes.mean,
                "directions": self.axes.directions,
                "amounts": list(self.axes.amounts),
                "players": [list(player) for player in self.axes.players],
            }
        return {
            "version": self.version,
            "axes": axes,
            "values": self.values.state(),
            "gains": self.gains.state(),
            "refused": dict(sorted(self._refused.items())),
        }

    def restore(self, state: dict[str, Any]) -> None:
        saved = state["axes"]
        self.axes = None
        if saved is not None:
            players = tuple((game, seat) for game, seat in saved["players"])
            self.axes = Axes(saved["mean"], saved["directions"], tuple(saved["amounts"]), players)
        self.version = state["version"]
        self.values.restore(state["values"])
        self.gains.restore(state["gains"] if "gains" in state else state["foreseen"])
        self._refused = Counter(state["refused"])


def by_turn(returns: Sequence[Sequence[float]]) -> np.ndarray:
    """The mean return at the same turn, turn after turn."""
    turn = np.concatenate([np.arange(len(each)) for each in returns])
    mean = np.bincount(turn, np.concatenate(returns)) / np.bincount(turn)
    return mean[turn]
