"""The latest episodes as texts, with an embedding of each distinct text.

    new = embedded(readings)        changes nothing
    texts(readings, new)            changes nothing
    add(readings, new)              they are the latest now; the oldest beyond the window are forgotten,
                                    with what only they said

Embeddings are held as 16-bit floats from the start, in memory and in checkpoints alike, so that a
restored memory is read as the saved one was. Where no embeddings are wanted they have no numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from envs.episode import Identity
from reward_service.intentions.corpus import Corpus, Embed, NewGists, gists_of, plain_gists, stacked
from reward_service.intentions.gist import Gist
from reward_service.intentions.reading import EpisodeReading, Reading


class Texts(NamedTuple):
    """Games to be valued or trained on, in an order of their own, and the embedding of every text in them."""

    games: list[Reading]
    row: dict[Gist, int]
    embeddings: np.ndarray  # float32 [distinct texts, dimension]

    @property
    def owner(self) -> np.ndarray:
        """For each turn, in the order of the games, the number of its game."""
        return np.repeat(np.arange(len(self.games)), [game.turns for game in self.games])

    def by_game(self, turns: np.ndarray) -> list[np.ndarray]:
        """One entry a turn, in the order of the games, cut into the games."""
        return np.split(turns, np.cumsum([game.turns for game in self.games])[:-1]) if self.games else []


class Memory:
    def __init__(self, window: int, embed: Embed | None):
        self.window, self.embed = window, embed or _without_numbers
        self.episodes: deque[EpisodeReading] = deque()
        self.corpus = Corpus()

    def embed_ahead(self, seats: Iterable[Reading]) -> None:
        """For the embedder to remember."""
        self.embed([gist.text for game in seats for gist in game.texts])

    def embedded(self, readings: Iterable[EpisodeReading]) -> NewGists:
        texts = [gist for each in readings for game in each.seats for gist in game.texts]
        return self.corpus.embedded(texts, self.embed)

    def add(self, readings: Sequence[EpisodeReading], new: NewGists) -> None:
        self.corpus.learn(*new)
        for each in readings:
            self.episodes.append(each)
            self.corpus.count(self._codes(each))
        while len(self.episodes) > self.window:
            self.corpus.forget(self._codes(self.episodes.popleft()))

    def _codes(self, episode: EpisodeReading) -> list[int]:
        return [self.corpus.codes[gist] for game in episode.seats for gist in game.texts]

    def texts(self, readings: Iterable[EpisodeReading] | None = None, new: NewGists | None = None) -> Texts:
        """Of these episodes, in which there is something new, or of all. Nothing in it changes any more."""
        chosen = self.episodes if readings is None else readings
        unknown = dict(zip(*new, strict=True)) if new else {}
        games = sorted((game for each in chosen for game in each.seats), key=lambda game: game.place)
        gists = sorted({gist for game in games for gist in game.texts})
        rows = [unknown[gist] if gist in unknown else self.corpus.embedding(gist) for gist in gists]
        return Texts(games, {gist: number for number, gist in enumerate(gists)}, stacked(rows).astype(np.float32))

    # What is saved

    def frozen(self) -> Callable[[], dict[str, Any]]:
        """What is referred to does not change any more."""
        utterances, episodes = list(self.corpus.utterances.values()), list(self.episodes)

        def made() -> dict[str, Any]:
            row = {each.gist: number for number, each in enumerate(utterances)}
            return {
                "gists": plain_gists(each.gist for each in utterances),
                "embeddings": stacked([each.embedding for each in utterances]) if utterances else None,
                "episodes": [[list(each.identity), [_plain(game, row) for game in each.seats]] for each in episodes],
            }

        return made

    def restore(self, state: dict[str, Any]) -> None:
        gists = gists_of(state["gists"])
        self.corpus, self.episodes = Corpus(), deque()
        if gists:
            self.corpus.learn(gists, np.asarray(state["embeddings"]))
        for identity, games in state["episodes"]:
            episode = EpisodeReading(tuple(identity), [_reading(tuple(identity), gists, *game) for game in games])
            self.episodes.append(episode)
            self.corpus.count(self._codes(episode))


def _without_numbers(texts: Sequence[str]) -> np.ndarray:
    return np.empty((len(texts), 0), np.float32)


def _plain(game: Reading, row: dict[Gist, int]) -> list:
    """What models read of it: `heard` is of the intentions' window."""
    return [*game.player, [row[gist] for gist in game.texts], list(map(int, game.executable)), game.outcome]


def _reading(identity: Identity, gists: list[Gist], game: str, seat: str, texts, executable, outcome) -> Reading:
    found, turns = [gists[number] for number in texts], len(executable)
    return Reading((game, seat), found[turns:], (), outcome, found[:turns], list(map(bool, executable)), identity)
