"""ARIA: each turn is worth the mean return of all turns that mean the same in the same situation.

    episodes -> gists -> codes -> window, labelled in the current space -> means -> advantages

The mean itself is the advantage, as in the paper (Reinforcing Language Agents via Intention-Driven
Reward Aggregation); `aggregate.baseline` subtracts from it. Before the first space there are no
intentions, and a turn's advantage is its own return, gamma^(T-t) times the outcome: plain REINFORCE.

A refit is three steps, so that it can go on beside the traffic:

    refit_due() -> fit_again(), in any thread: a new space from a snapshot -> publish(space)

`publish` relabels the whole window and replaces space and aggregates at once; every answer
comes wholly from one version, and names it. What arrived in between is labelled then, too.

A call of `shape` is all or nothing: a refused episode is counted, and changes nothing else.
Saved and restored is as never stopped; what was prepared but not published is fitted again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from envs.episode import Episode
from envs.settings import GameSettings
from reward_service.intentions.corpus import Corpus, Embed
from reward_service.intentions.fit import fit_space
from reward_service.intentions.gist import Gist
from reward_service.intentions.granularity import with_level
from reward_service.intentions.matching import Change, compare, keep_ids
from reward_service.intentions.pooling import resolutions, values_of
from reward_service.intentions.reading import EpisodeRefused, Reading, check, read
from reward_service.intentions.settings import IntentionSettings
from reward_service.intentions.space import IntentionSpace
from reward_service.intentions.stored import packed, unpacked
from reward_service.intentions.trajectory import Trajectory, Turns
from reward_service.intentions.window import Identity, Played, Window
from reward_service.settings import RewardSettings
from reward_service.shaper import ShapedRewards

REMEMBERED_WINDOWS = 8  # an episode sent again within so many windows is known
ROUNDING = 1e-3  # equal points may seem so far apart, in 32-bit floats
DRIFT_UTTERANCES = 200  # fewer since the last refit say nothing about drift


class AriaShaper:
    """`embed`: texts to unit rows; by default the sentence-transformers model of the settings."""

    def __init__(self, settings: IntentionSettings | None = None, embed: Embed | None = None):
        self.settings = settings or IntentionSettings()
        self._embed = embed or self._model
        self._lock = threading.RLock()
        self.space: IntentionSpace | None = None
        self.change = Change(agreement=1.0, moved=0.0)  # by the last refit
        self.corpus = Corpus()
        self.window = Window(self.settings.aggregate)
        self._names: dict[int, list[int]] = {}  # level -> intention of each prototype
        self._known: dict[Identity, None] = {}
        self._refused: Counter[str] = Counter()
        self._new = self._said = self._far = 0  # since the last refit: distinct, all, outside the space

    def _model(self, texts: Sequence[str]) -> np.ndarray:
        from envs.embedding import embed

        return embed(texts, self.settings.model)

    @property
    def version(self) -> int:
        return self.space.version if self.space else 0

    @classmethod
    def made(cls, settings: RewardSettings, game: GameSettings) -> AriaShaper:
        return cls(settings.intentions)

    # Episodes in, advantages out

    def prepare(self, episode: Episode) -> None:
        """Embeds what was said, for the embedder to remember: utterances become known to the
        shaper itself in ticket order."""
        gists = [
            gist for reading in read(episode, self.settings.observations) for gist in (*reading.said, *reading.heard)
        ]
        self._embed([gist.text for gist in gists if isinstance(gist, Gist)])

    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        with self._lock:
            self._check(episodes)
            readings = [read(episode, self.settings.observations) for episode in episodes]
            self._learn(readings)
            added = [self._add(episode, reading) for episode, reading in zip(episodes, readings, strict=True)]
            while len(self.window.episodes) > max(self.settings.aggregate.window, len(added)):
                self._expire()
            if self.settings.refit == "inline" and self.refit_due():
                self.publish(self.fit_again())
                added = list(self.window.episodes)[len(self.window.episodes) - len(added) :]
            shaped = [each for played in added for each in self._values(played)]
            while len(self.window.episodes) > self.settings.aggregate.window:
                self._expire()
            return shaped

    def _check(self, episodes: Sequence[Episode]) -> None:
        coming: set[Identity] = set()
        for episode in episodes:
            try:
                check(episode)
                identity = _identity(episode)
                if identity in self._known or identity in coming:
                    raise EpisodeRefused(episode, "sent_twice", "it was sent before")
                coming.add(identity)
            except EpisodeRefused as refused:
                self._refused[refused.reason] += 1
                raise

    def _learn(self, readings: Sequence[Sequence[Reading]]) -> None:
        """Embeds what is new. Nothing has changed if the embedding fails."""
        gists = [gist for seats in readings for seat in seats for gist in (*seat.said, *seat.heard)]
        new = self.corpus.unknown(gist for gist in gists if isinstance(gist, Gist))
        if not new:
            return
        rows = np.asarray(self._embed([gist.text for gist in new]))
        if len(rows) != len(new) or rows.ndim != 2 or not np.isfinite(rows).all():
            raise ValueError(f"the embedding of {len(new)} texts has shape {rows.shape} or is not finite")
        if self.corpus.dimension not in (None, rows.shape[1]):
            raise ValueError(f"embeddings have {rows.shape[1]} numbers, earlier ones {self.corpus.dimension}")
        codes = self.corpus.learn(new, rows)
        self._new += len(new)
        if self.space:
            self._place(self.space, codes)

    def _place(self, space: IntentionSpace, codes: Sequence[int]) -> None:
        for code, (prototype, distance) in zip(codes, self._nearest(space, codes), strict=True):
            utterance = self.corpus.utterances[code]
            utterance.prototype, utterance.far = prototype, distance > space.radius + ROUNDING

    def _nearest(self, space: IntentionSpace, codes: Sequence[int]) -> list[tuple[int, float]]:
        if not codes:
            return []
        gists = [self.corpus.utterances[code].gist for code in codes]
        index, distance = space.nearest(space.features(self.corpus.embeddings(codes), gists))
        return list(zip(index.tolist(), distance.tolist(), strict=True))

    def _add(self, episode: Episode, readings: Sequence[Reading]) -> Played:
        trajectories = [self._coded(reading) for reading in readings]
        codes = _codes(trajectories)
        self.corpus.count(codes)
        self._said += len(codes)
        self._far += sum(self.corpus.utterances[code].far for code in codes)
        self._known[_identity(episode)] = None
        while len(self._known) > REMEMBERED_WINDOWS * self.settings.aggregate.window:
            del self._known[next(iter(self._known))]
        return self.window.add(_identity(episode), trajectories)

    def _coded(self, reading: Reading) -> Trajectory:
        codes = self.corpus.codes
        heard = tuple(codes[each] if isinstance(each, Gist) else each for each in reading.heard)
        return Trajectory(reading.player, tuple(codes[gist] for gist in reading.said), heard, reading.outcome)

    def _expire(self) -> None:
        self.corpus.forget(_codes(self.window.expire().trajectories))

    def _label(self, level: int, codes: Sequence[int]) -> list[int]:
        names, utterances = self._names[level], self.corpus.utterances
        return [names[utterances[code].prototype] if code >= 0 else code for code in codes]

    def _values(self, played: Played) -> list[ShapedRewards]:
        return [
            ShapedRewards(
                number=played.identity[1],
                seat=trajectory.player[1],
                rewards=values_of(entry, self.settings.aggregate).astype(np.float32),
                version=self.version,
                kind="advantage",
            )
            for trajectory, entry in zip(played.trajectories, played.entries, strict=True)
        ]

    # Refitting

    def refit_due(self) -> bool:
        with self._lock:
            if self.space is None:
                return self._said >= self.settings.first_fit
            grown = self._new >= self.settings.growth * self.space.fitted
            return grown or (self._said >= DRIFT_UTTERANCES and self._drift() > self.settings.drift)

    def _drift(self) -> float:
        return self._far / self._said if self._said else 0.0

    def refit(self) -> Callable[[], IntentionSpace] | None:
        return self.fit_again if self.settings.refit == "beside" and self.refit_due() else None

    def fit_again(self) -> IntentionSpace:
        """The next version, fitted on the window as it is now. Changes nothing."""
        with self._lock:
            old, trajectories = self.space, self.window.trajectories()
            codes, utterances = self.corpus.snapshot()
        settings = self.settings.space
        new = fit_space(utterances, settings, version=old.version + 1 if old else 1)
        prototype, _ = new.nearest(new.features(utterances.embeddings, utterances.gists))
        if old:
            before, _ = old.nearest(old.features(utterances.embeddings, utterances.gists))
            new = keep_ids(old, new, before, prototype, utterances.counts, settings.keep)
        row = {code: number for number, code in enumerate(codes)}
        turns = Turns([_renumbered(each, row) for each in trajectories], self.settings.aggregate.gamma)
        return with_level(new, settings, turns, prototype)

    def publish(self, space: IntentionSpace) -> None:
        with self._lock:
            if space.version != self.version + 1:
                raise ValueError(f"intention space {space.version} cannot follow version {self.version}")
            codes = list(self.corpus.utterances)
            if self.space and codes:
                self.change = self._compared(self.space, space, codes)
            self._use(space, codes)
            self._new = self._said = self._far = 0

    def _use(self, space: IntentionSpace, codes: Sequence[int]) -> None:
        tables = resolutions(self.settings.aggregate, space.levels, space.k)
        self._names = {level: space.names(level).tolist() for level, _ in tables}
        self._place(space, codes)
        self.window = self.window.relabelled(tables, self._label)
        self.space = space

    def _compared(self, old: IntentionSpace, new: IntentionSpace, codes: Sequence[int]) -> Change:
        utterances = [self.corpus.utterances[code] for code in codes]
        before = old.names(old.k)[[utterance.prototype for utterance in utterances]]
        after = new.names(new.k)[[prototype for prototype, _ in self._nearest(new, codes)]]
        return compare(before, after, np.array([utterance.count for utterance in utterances]))

    # What is logged and saved

    def metrics(self) -> dict[str, float]:
        with self._lock:
            found = self.window.metrics() | {
                "version": float(self.version),
                "utterances": float(len(self.corpus)),
                "drift": self._drift(),
                "agreement": self.change.agreement,
                "moved": self.change.moved,
            }
            if self.space:
                found |= {"k": float(self.space.k), "settled": float(self.space.settled)}
            found |= {f"refused/{reason}": float(count) for reason, count in sorted(self._refused.items())}
        return {f"intentions/{name}": value for name, value in found.items()}

    def state(self) -> dict[str, Any]:
        with self._lock:
            codes = list(self.corpus.utterances)
            utterances = [self.corpus.utterances[code] for code in codes]
            rows = np.stack([each.embedding for each in utterances]) if codes else np.empty((0, 0), np.float16)
            row = {code: number for number, code in enumerate(codes)}
            return {
                "space": self.space.state() if self.space else None,
                "change": [self.change.agreement, self.change.moved],
                "gists": [[each.gist.text, [list(amount) for amount in each.gist.amounts]] for each in utterances],
                "embeddings": packed(rows),
                "window": [
                    [list(played.identity), [_saved(each, row) for each in played.trajectories]]
                    for played in self.window.episodes
                ],
                "known": [list(identity) for identity in self._known],
                "refused": dict(sorted(self._refused.items())),
                "since_refit": [self._new, self._said, self._far],
            }

    def restore(self, state: dict[str, Any]) -> None:
        with self._lock:
            self.change = Change(*state["change"])
            self.corpus = Corpus()
            gists = [Gist(text, tuple((name, amount) for name, amount in amounts)) for text, amounts in state["gists"]]
            self.corpus.learn(gists, unpacked(state["embeddings"]))
            self.window, self.space = Window(self.settings.aggregate), None
            for identity, saved in state["window"]:
                trajectories = [
                    Trajectory((game, seat), tuple(said), tuple(heard), outcome)
                    for game, seat, said, heard, outcome in saved
                ]
                self.corpus.count(_codes(trajectories))
                self.window.add(tuple(identity), trajectories)
            if state["space"]:
                self._use(IntentionSpace.of_state(state["space"]), list(self.corpus.utterances))
            self._known = {tuple(identity): None for identity in state["known"]}
            self._refused = Counter(state["refused"])
            self._new, self._said, self._far = state["since_refit"]


def _identity(episode: Episode) -> Identity:
    return episode.ticket.run, episode.ticket.number, episode.ticket.attempt


def _codes(trajectories: Sequence[Trajectory]) -> list[int]:
    """Of every clustered utterance, as often as it occurs."""
    return [code for each in trajectories for code in (*each.actions, *each.observations) if code >= 0]


def _renumbered(trajectory: Trajectory, row: Mapping[int, int]) -> Trajectory:
    """With rows in place of codes; fixed labels stay."""
    return trajectory._replace(
        actions=tuple(row[code] for code in trajectory.actions),
        observations=tuple(row.get(code, code) for code in trajectory.observations),
    )


def _saved(trajectory: Trajectory, row: Mapping[int, int]) -> list:
    plain = _renumbered(trajectory, row)
    return [*plain.player, list(plain.actions), list(plain.observations), plain.outcome]
