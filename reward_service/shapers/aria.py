"""ARIA: each turn is worth the mean return of all turns that mean the same in the same situation.

    episodes -> gists -> codes -> window, labelled in the current space -> means -> advantages

The mean itself is the advantage, as in the paper (Reinforcing Language Agents via Intention-Driven
Reward Aggregation); `aggregate.baseline` subtracts from it. Before the first space there are no
intentions, and a turn's advantage is its own return, gamma^(T-t) times the outcome: plain REINFORCE.
With `gives: outcome` a seat is paid its outcome at its last turn, and turns only carry their
anchors: equal numbers, inside one answer, for turns with equal label histories.

A refit goes on beside the traffic:

    refit_due() -> fit_again(), in any thread: a snapshot -> a space, fitted in a process of its own,
                   and the window labelled in it; then, round by round, what has come and gone meanwhile
                -> publish(space): the last of that, and the new version is in use

For a refit the lock is held while references are taken, and in `publish` for what came in the last
round. Every answer comes wholly from one version, and names it. A published version is as one
that is made, at that moment, of the window and the new space.

What was prepared and not published when the shaper was saved is fitted again, unless it was `saved` too: then
`result_of` makes the version anew, of the space and the window as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from envs.settings import GameSettings
from envs.text.embedding import Embedder, LocalEncoder
from reward_service.frame import Intake, ReadingShaper, locked
from reward_service.intentions.companion import in_companion
from reward_service.intentions.corpus import Corpus, Embed, gists_of, plain_gists, stacked
from reward_service.intentions.gist import Gist
from reward_service.intentions.matching import Change
from reward_service.intentions.reading import EpisodeReading, Reading
from reward_service.intentions.refit import Snapshot, fit, next_version
from reward_service.intentions.settings import IntentionSettings
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.stored import packed, unpacked
from reward_service.intentions.trajectory import CodedGame, codes_of
from reward_service.intentions.version import Since, Version
from reward_service.intentions.window import Centre, CodedEpisode, Window, WindowEpisode
from reward_service.shaper import ShapedRewards, ShaperSettings
from reward_service.threads import short_switch_interval

DRIFT_UTTERANCES = 200  # fewer since the last refit say nothing about drift
CATCH_UP_EPISODES = 16  # few enough to be left for `publish`
CATCH_UP_ROUNDS = 8  # each on what came during the one before


class Aria(ShaperSettings):
    """The mean return of all turns that mean the same in the same situation."""

    gives: Literal["advantage", "outcome"] = Field(
        "advantage",
        description="advantage: what intentions say a turn is worth; outcome: the game's result at a seat's last turn, "
        "for credit methods that only compare turns with equal label histories",
    )
    intentions: IntentionSettings = Field(default_factory=IntentionSettings)

    def make(self, game: GameSettings) -> AriaShaper:
        return AriaShaper(self.intentions, gives=self.gives)

    @property
    def gives_advantages(self) -> bool:
        return self.gives == "advantage"

    @property
    def gives_labels(self) -> bool:
        return self.gives == "outcome"


class AriaShaper(ReadingShaper):
    """`embed`: texts to unit rows; by default what the settings name."""

    name = "intentions"

    def __init__(self, settings: IntentionSettings | None = None, embed: Embed | None = None, gives: str = "advantage"):
        self.settings, self.gives = settings or IntentionSettings(), gives
        super().__init__(Intake(self.settings.observations, self.settings.aggregate.window))
        self.embedder = Embedder(self._encoder, self.settings.embedding.cached)
        self.embed = embed or self.embedder.embed
        self.corpus = Corpus()
        self.now = Version(self.settings.aggregate)
        self._next: tuple[Version, Version] | None = None  # the version in use, and one fitted beside it
        self._new = self._said = self._far = 0  # since the last refit: distinct, all, outside the space

    def _encoder(self):
        if endpoint := self.settings.embedding.endpoint:
            from envs.text.embedding_endpoint import EndpointEncoder

            return EndpointEncoder("reward.shaper.intentions.embedding.endpoint", endpoint)
        return LocalEncoder(self.settings.model)

    @property
    def space(self) -> IntentionSpace | None:
        return self.now.space

    @property
    def version(self) -> int:
        return self.now.number

    @property
    def window(self) -> Window:
        return self.now.window

    # Episodes in, rewards out

    def embed_ahead(self, seats: Sequence[Reading]) -> None:
        self.embed([gist.text for seat in seats for gist in seat.clustered])

    def answer(self, readings: Sequence[EpisodeReading]) -> list[ShapedRewards]:
        kept = self.settings.aggregate.window
        before = self.frozen() if self.settings.refit == "inline" else None
        self._learn(readings)
        self._expire(max(kept, len(readings)))
        if before is not None and self.refit_due():
            try:
                self.publish(self.fit_again())
            except BaseException:
                self.restore(before())  # whose answer fails does not count
                raise
        shaped = self._shaped(self.window.latest(len(readings)))
        self._expire(kept)
        return shaped

    def _learn(self, readings: Sequence[EpisodeReading]) -> None:
        """Embeds what is new and adds the games. Nothing has changed if the embedding fails."""
        gists = [gist for each in readings for seat in each.seats for gist in seat.clustered]
        new = self.corpus.embedded(gists, self.embed)
        self.corpus.learn(*new)
        self.now.place(self.corpus.since(self.now.seen))
        games = [(each.identity, tuple(map(self._coded, each.seats))) for each in readings]
        codes = _codes(games)
        self.corpus.count(codes)
        self._new += len(new.gists)
        self._said += len(codes)
        self._far += sum(code in self.now.far for code in codes)
        self.intake.remember(readings)
        self.window.add(games)

    def _coded(self, reading: Reading) -> CodedGame:
        codes = self.corpus.codes
        heard = tuple(codes[each] if isinstance(each, Gist) else each for each in reading.heard)
        return CodedGame(reading.player, tuple(codes[gist] for gist in reading.said), heard, reading.outcome)

    def _expire(self, kept: int) -> None:
        """All but the latest so many episodes, and what only they said."""
        expired = self.window.expire(max(len(self.window) - kept, 0))
        self.now.forget(self.corpus.forget(_codes(played[:2] for played in expired)))

    def _shaped(self, latest: Sequence[WindowEpisode]) -> list[ShapedRewards]:
        outcome = self.gives == "outcome"
        values = self.window.paid(latest) if outcome else self.window.values(latest)
        labelled = self.now.labels(latest) or [[None] * len(played.trajectories) for played in latest]
        return [
            ShapedRewards(
                number=played.identity[1],
                seat=trajectory.player[1],
                rewards=rewards.astype(np.float32),
                version=self.version,
                kind="reward" if outcome else "advantage",
                anchors=anchors,
                labels=labels,
            )
            for played, *seats in zip(latest, values, self.window.anchors(latest), labelled, strict=True)
            for trajectory, rewards, anchors, labels in zip(played.trajectories, *seats, strict=True)
        ]

    # Refitting

    @locked
    def refit_due(self) -> bool:
        if self.space is None:
            return self._said >= self.settings.first_fit
        grown = self._new >= self.settings.growth * self.space.fitted
        return grown or (self._said >= DRIFT_UTTERANCES and self._drift > self.settings.drift)

    @property
    def _drift(self) -> float:
        return self._far / self._said if self._said else 0.0

    def refit(self) -> Callable[[], IntentionSpace] | None:
        return self.fit_again if self.settings.refit == "beside" and self.refit_due() else None

    def fit_again(self) -> IntentionSpace:
        """The next space; the window labelled in it waits here to be published with it."""
        with self.lock:
            old = self.now
            snapshot = Snapshot(old.space, self.corpus.since(), list(old.window.episodes), old.window.first)
        with short_switch_interval():
            fitting = fit if self.settings.refit == "inline" else partial(in_companion, fit)
            new = next_version(snapshot, self.settings, fitting)
            for _ in range(CATCH_UP_ROUNDS):
                since = self._since(new)
                if len(since.games) <= CATCH_UP_EPISODES:
                    break
                new.follow(since)
        with self.lock:
            self._next = old, new
        return new.space

    @locked
    def _since(self, version: Version) -> Since:
        window = self.window
        return Since(self.corpus.since(version.seen), window.since(version.window.end), window.first, window.end)

    @locked
    def publish(self, space: IntentionSpace) -> None:
        if space.version != self.version + 1:
            raise ValueError(f"intention space {space.version} cannot follow version {self.version}")
        if self._next is None or self._next[0] is not self.now or self._next[1].space is not space:
            raise ValueError(f"intention space {space.version} was not fitted beside the version in use")
        new = self._next[1]
        new.follow(self._since(new))
        self.now, self._next = new, None
        self._new = self._said = self._far = 0

    def saved(self, space: IntentionSpace) -> dict[str, Any]:
        following = self._next
        if following is None or following[1].space is not space:
            raise ValueError(f"intention space {space.version} is not the one that was fitted last")
        return {"space": space.state(), "change": list(following[1].change), "centre": plain_centre(following[1])}

    @locked
    def result_of(self, saved: dict[str, Any]) -> IntentionSpace:
        """With the present window labelled in it."""
        space, centre = IntentionSpace.of_state(saved["space"]), centre_back(saved.get("centre", ()))
        new = Version(self.settings.aggregate, space, self.window.first, centre)
        new.change = Change(*saved["change"])
        new.follow(self._since(new))
        self._next = self.now, new
        return new.space

    # What is logged and saved

    def measured(self) -> dict[str, float]:
        found = self.window.metrics() | {
            "version": float(self.version),
            "utterances": float(len(self.corpus)),
            "drift": self._drift,
            "agreement": self.now.change.agreement,
            "moved": self.now.change.moved,
        }
        if self.space:
            found |= {"k": float(self.space.k), "settled": float(self.space.settled)}
        return found | {f"embedding/{name}": value for name, value in self.embedder.metrics().items()}

    @locked
    def frozen(self) -> Callable[[], dict[str, Any]]:
        space, utterances, episodes = self.space, self.corpus.since(), list(self.window.episodes)
        intake = self.intake.frozen()
        counted = {"change": list(self.now.change), "since_refit": [self._new, self._said, self._far]}
        counted |= {"centre": plain_centre(self.now), "first": self.window.first}

        def made() -> dict[str, Any]:
            row = {code: number for number, (code, _) in enumerate(utterances)}
            return {
                "space": space.state() if space else None,
                "gists": plain_gists(each.gist for _, each in utterances),
                "embeddings": packed(stacked([each.embedding for _, each in utterances])),
                "window": [[list(each.identity), [game.plain(row) for game in each.trajectories]] for each in episodes],
                **intake(),
                **counted,
            }

        return made

    @locked
    def restore(self, state: dict[str, Any]) -> None:
        self.corpus = Corpus()
        self.corpus.learn(gists_of(state["gists"]), unpacked(state["embeddings"]))
        games = [
            (tuple(identity), tuple(CodedGame.of_plain(*each) for each in played))
            for identity, played in state["window"]
        ]
        self.corpus.count(_codes(games))
        space = IntentionSpace.of_state(state["space"]) if state["space"] else None
        first, centre = state.get("first", 0), centre_back(state.get("centre", ()))  # not in earlier states
        self.now = Version(self.settings.aggregate, space, first, centre)
        self.now.change = Change(*state["change"])
        self.now.place(self.corpus.since())
        self.window.add(games)
        self.intake.restore(state)
        self._new, self._said, self._far = state["since_refit"]


def plain_centre(version: Version) -> list[Any]:
    return [[*player, means.tolist()] for player, means in version.window.centre.items()]


def centre_back(plain: Iterable[Sequence[Any]]) -> Centre:
    return {(game, seat): np.array(means, np.float64) for game, seat, means in plain}


def _codes(games: Iterable[CodedEpisode]) -> list[int]:
    """Of every clustered utterance, as often as it counts."""
    return [code for _, seats in games for code in codes_of(seats)]
