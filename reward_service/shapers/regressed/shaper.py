"""Intention credit by regression: how much better a turn did than its situation promised.

    V(h)      what a situation promises: ridge regression of returns on past batches
    A(t)      turn-level GAE with V, ending in the outcome
    F(h, a)   what meaning such a thing in such a situation brought: ridge regression of A
    advantage = own * A + (1 - own) * F

With `gives: outcome` the learner's credit makes its own A of the outcome, say by a critic on the
policy's hidden states, and what goes on top is (1 - own) / own * F: the same mixture, over `own`.

No turn is valued by a fit that has seen its batch (`ridge`). F shrinks to a constant where it
predicts nothing: what is left is `own` * A, and the optimiser does not mind the scale. Until
there is a past, V is the mean at the same turn and F is 0. Nothing is learned from answers before
16 games have been read: their utterances say along which axes all later ones are described.

Nothing is refitted beside the traffic: a batch costs two small eigenvalue problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from envs.text.embedding import embed
from reward_service.frame import Intake, ReadingShaper, locked
from reward_service.intentions.corpus import Embed, gists_of, plain_gists
from reward_service.intentions.gist import Gist
from reward_service.intentions.reading import EpisodeReading, Reading
from reward_service.intentions.trajectory import turn_returns
from reward_service.shaper import ShapedRewards
from reward_service.shapers.regressed import Regressed
from reward_service.shapers.regressed.features import Axes, features
from reward_service.shapers.regressed.ridge import PastRidge

FIRST_GAMES = 16  # readings of seats, whose utterances give the axes


class Early:
    """What was read while there were no axes."""

    def __init__(self) -> None:
        self.games = 0
        self.gists: set[Gist] = set()
        self.players: set[tuple[str, str]] = set()

    def take(self, games: Sequence[Reading]) -> None:
        self.games += len(games)
        self.gists.update(gist for game in games for gist in game.clustered)
        self.players.update(game.player for game in games)

    def state(self) -> dict[str, Any]:
        players = [list(player) for player in sorted(self.players)]
        return {"games": self.games, "gists": plain_gists(sorted(self.gists)), "players": players}

    @classmethod
    def of(cls, state: dict[str, Any]) -> Early:
        made = cls()
        made.games, made.gists = state["games"], set(gists_of(state["gists"]))
        made.players = {(game, seat) for game, seat in state["players"]}
        return made


class RegressedShaper(ReadingShaper):
    name = "regressed"

    def __init__(self, settings: Regressed | None = None, embed: Embed | None = None):
        self.settings = settings or Regressed()
        super().__init__(Intake(self.settings.observations))
        self.embed = embed or self._model
        self.early = Early()
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
        returns = [turn_returns(each.outcome, each.turns, self.settings.gamma) for each in games]
        if not self._has_axes(games):
            own = self._advantages(games, by_turn(returns))
            return self._all_shaped(games, own, None, self.version)
        situation, meaning = features(games, self.axes, self.embed)
        both = np.hstack([situation, meaning])
        values, found = self.values.predict(situation), self.gains.predict(both)
        own = self._advantages(games, by_turn(returns) if values is None else values)
        self.values.learn(situation, np.concatenate(returns))
        self.gains.learn(both, own)
        self.version += 1
        return self._all_shaped(games, own, found, self.version - 1)

    def _has_axes(self, games: Sequence[Reading]) -> bool:
        if self.axes is None:
            early = self.early
            early.take(games)
            if early.games < FIRST_GAMES:
                return False
            self.axes = Axes.found(early.gists, early.players, self.settings.components, self.embed)
            self.early = Early()
        return True

    def _all_shaped(
        self, games: Sequence[Reading], own: np.ndarray, found: np.ndarray | None, version: int
    ) -> list[ShapedRewards]:
        cuts = np.cumsum([each.turns for each in games])[:-1]
        expected = np.zeros(len(own)) if found is None else found
        parts = zip(games, np.split(own, cuts), np.split(expected, cuts), strict=True)
        return [self._shaped(*part, found is not None, version) for part in parts]

    def _shaped(self, game: Reading, own: np.ndarray, expected: np.ndarray, past: bool, version: int) -> ShapedRewards:
        """`past`: whether anything could be expected at all."""
        number, seat = game.identity[1], game.player[1]
        share = self.settings.own if past else 1.0
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
            "early": self.early.state(),
            "axes": axes,
            "values": self.values.state(),
            "gains": self.gains.state(),
            "refused": dict(sorted(self.intake.refused.items())),
        }
        return lambda: state

    @locked
    def restore(self, state: dict[str, Any]) -> None:
        saved = state["axes"]
        self.early = Early.of(state["early"]) if "early" in state else Early()  # earlier versions have none
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
