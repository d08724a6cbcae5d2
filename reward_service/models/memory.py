"""The latest episodes as texts, with an embedding of each distinct text.

    told, rows = read(episodes)     refuses what is bad or was sent before; changes nothing else
    add(told, rows)                 they are the latest now
    expire()                        the oldest beyond the window are forgotten, with what only they said

Embeddings are held as 16-bit floats from the start, in memory and in checkpoints alike, so that a
restored memory is read as the saved one was. Where no embeddings are wanted they have no numbers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from envs.episode import Episode
from reward_service.intentions.corpus import Corpus, Embed, Utterance, stacked
from reward_service.intentions.gist import Gist
from reward_service.intentions.reading import EpisodeRefused
from reward_service.intentions.window import Identity
from reward_service.models.texts import SeatGame, identity_of, tell

REMEMBERED_WINDOWS = 8  # an episode sent again within so many windows is known


class Told(NamedTuple):
    """One episode: its seats' games."""

    identity: Identity
    games: tuple[SeatGame, ...]


class Texts(NamedTuple):
    """Games to be valued or trained on, in an order of their own, and the embedding of every text in them."""

    games: list[SeatGame]
    row: dict[Gist, int]
    embeddings: np.ndarray  # float32 [distinct texts, dimension]

    @property
    def owner(self) -> np.ndarray:
        """For each turn, in the order of the games, the number of its game."""
        return np.repeat(np.arange(len(self.games)), [game.turns for game in self.games])


class Memory:
    def __init__(self, window: int, embed: Embed | None):
        self.window, self._embed = window, embed
        self.episodes: deque[Told] = deque()
        self.corpus = Corpus()
        self.known: dict[Identity, None] = {}
        self.refused: Counter[str] = Counter()

    def prepare(self, episode: Episode) -> None:
        """Embeds ahead, for the embedder to remember."""
        if self._embed:
            self._embed([gist.text for game in tell(episode) for gist in game.gists])

    def read(self, episodes: Sequence[Episode]) -> tuple[list[Told], dict[Gist, np.ndarray]]:
        """The episodes, and embeddings of the texts in them that are new."""
        told = [self._told(episode) for episode in episodes]
        twice = [each for each, count in Counter(each.identity for each in told).items() if count > 1]
        for episode, each in zip(episodes, told, strict=True):
            if each.identity in self.known or each.identity in twice:
                self.refused["sent_twice"] += 1
                raise EpisodeRefused(episode, "sent_twice", "it was sent before")
        new = self.corpus.unknown(gist for each in told for game in each.games for gist in game.gists)
        return told, dict(zip(new, self._embedded(new), strict=True))

    def _told(self, episode: Episode) -> Told:
        try:
            return Told(identity_of(episode), tuple(tell(episode)))
        except EpisodeRefused as refused:
            self.refused[refused.reason] += 1
            raise

    def _embedded(self, gists: Sequence[Gist]) -> np.ndarray:
        if not self._embed or not gists:
            return np.empty((len(gists), 0), np.float32)
        rows = np.asarray(self._embed([gist.text for gist in gists]))
        if rows.ndim != 2 or len(rows) != len(gists) or not np.isfinite(rows).all():
            raise ValueError(f"the embedding of {len(gists)} texts has shape {rows.shape} or is not finite")
        if self.corpus.dimension not in (None, rows.shape[1]):
            raise ValueError(f"embeddings have {rows.shape[1]} numbers, earlier ones {self.corpus.dimension}")
        return rows

    def add(self, told: Iterable[Told], rows: dict[Gist, np.ndarray]) -> None:
        if rows:
            self.corpus.learn(list(rows), np.stack(list(rows.values())))
        for each in told:
            self.episodes.append(each)
            self.corpus.count(self._codes(each))
            self.known[each.identity] = None
        while len(self.known) > REMEMBERED_WINDOWS * self.window:
            del self.known[next(iter(self.known))]

    def expire(self) -> None:
        while len(self.episodes) > self.window:
            self.corpus.forget(self._codes(self.episodes.popleft()))

    def _codes(self, told: Told) -> list[int]:
        return [self.corpus.codes[gist] for game in told.games for gist in game.gists]

    def texts(self, told: Iterable[Told] | None = None) -> Texts:
        """Of these episodes, or of all. Nothing in it changes any more."""
        games = sorted(
            (game for each in (self.episodes if told is None else told) for game in each.games),
            key=lambda game: game.place,
        )
        gists = sorted({gist for game in games for gist in game.gists})
        codes = [self.corpus.codes[gist] for gist in gists]
        embeddings = self.corpus.embeddings(codes) if codes else np.empty((0, 0), np.float32)
        return Texts(games, {gist: number for number, gist in enumerate(gists)}, embeddings)

    # What is saved

    def state(self) -> dict[str, Any]:
        return self.frozen()()

    def frozen(self) -> Callable[[], dict[str, Any]]:
        """What is referred to does not change any more."""
        refused = dict(sorted(self.refused.items()))
        return partial(_plain, list(self.corpus.utterances.values()), list(self.episodes), list(self.known), refused)

    def restore(self, state: dict[str, Any]) -> None:
        gists = [Gist(text, tuple((name, amount) for name, amount in amounts)) for text, amounts in state["gists"]]
        self.corpus, self.episodes = Corpus(), deque()
        if gists:
            self.corpus.learn(gists, np.asarray(state["embeddings"]))
        for identity, games in state["episodes"]:
            told = Told(tuple(identity), tuple(self._restored(tuple(identity), gists, *game) for game in games))
            self.episodes.append(told)
            self.corpus.count(self._codes(told))
        self.known = {tuple(identity): None for identity in state["known"]}
        self.refused = Counter(state["refused"])

    @staticmethod
    def _restored(identity: Identity, gists: list[Gist], game: str, seat: str, texts, executable, outcome) -> SeatGame:
        said = [gists[number] for number in texts]
        turns = len(executable)
        return SeatGame(
            identity, (game, seat), tuple(said[:turns]), tuple(said[turns:]), tuple(map(bool, executable)), outcome
        )


def _plain(
    utterances: Sequence[Utterance], episodes: Sequence[Told], known: Sequence[Identity], refused: dict[str, int]
) -> dict[str, Any]:
    row = {each.gist: number for number, each in enumerate(utterances)}
    return {
        "gists": [[each.gist.text, [list(amount) for amount in each.gist.amounts]] for each in utterances],
        "embeddings": stacked([each.embedding for each in utterances]) if utterances else None,
        "episodes": [[list(each.identity), [_saved(game, row) for game in each.games]] for each in episodes],
        "known": [list(identity) for identity in known],
        "refused": refused,
    }


def _saved(game: SeatGame, row: dict[Gist, int]) -> list:
    texts = [row[gist] for gist in game.gists]
    return [*game.player, texts, [int(could) for could in game.executable], game.outcome]
