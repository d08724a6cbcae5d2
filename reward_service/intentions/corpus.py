"""The distinct utterances of the window: gist, embedding, and how often each is in it.

Every gist has a code while it is in use. Embeddings are held as 16-bit floats from the start,
in memory and in checkpoints alike, so that a restored corpus labels as the saved one did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from reward_service.intentions.gist import Gist

Embed = Callable[[Sequence[str]], np.ndarray]  # unit rows
STACKED = 1024  # embeddings at once
LARGEST = float(np.finfo(np.float16).max)


@dataclass(slots=True)
class Utterance:
    gist: Gist
    embedding: np.ndarray  # float16 [dimension]
    count: int = 0  # the one thing that changes


class NewGists(NamedTuple):
    gists: list[Gist]
    embeddings: np.ndarray  # float16, a row each


class Corpus:
    def __init__(self):
        self.utterances: dict[int, Utterance] = {}  # by code
        self.codes: dict[Gist, int] = {}
        self.next_code = 0

    def __len__(self) -> int:
        return len(self.utterances)

    @property
    def dimension(self) -> int | None:
        """Of the embeddings; None while there are none."""
        return next((len(utterance.embedding) for utterance in self.utterances.values()), None)

    def embedded(self, gists: Iterable[Gist], embed: Embed) -> NewGists:
        """The gists that are new, each once, in order, with their embeddings. Changes nothing."""
        new = [gist for gist in dict.fromkeys(gists) if gist not in self.codes]
        rows = np.asarray(embed([gist.text for gist in new])) if new else np.empty((0, self.dimension or 0))
        if len(rows) != len(new) or rows.ndim != 2:
            raise ValueError(f"the embedding of {len(new)} texts has shape {rows.shape}")
        with np.errstate(over="ignore"):
            rows = rows.astype(np.float16)
        if not np.isfinite(rows).all():
            raise ValueError(f"the embedding of {len(new)} texts is not finite in 16 bits: at most {LARGEST:g}")
        if self.dimension not in (None, rows.shape[1]):
            raise ValueError(f"embeddings have {rows.shape[1]} numbers, earlier ones {self.dimension}")
        return NewGists(new, rows)

    def learn(self, gists: Sequence[Gist], embeddings: np.ndarray) -> None:
        """Gives new gists their codes. Each must then be counted, or it stays for ever."""
        for gist, embedding in zip(gists, embeddings.astype(np.float16), strict=True):
            self.codes[gist] = self.next_code
            self.utterances[self.next_code] = Utterance(gist, embedding.copy())
            self.next_code += 1

    def count(self, codes: Iterable[int]) -> None:
        for code in codes:
            self.utterances[code].count += 1

    def forget(self, codes: Iterable[int]) -> list[int]:
        """Take one of each out; what is not said any more loses its code, which is never given again.
        Returns the lost codes."""
        gone = []
        for code in codes:
            utterance = self.utterances[code]
            utterance.count -= 1
            if not utterance.count:
                del self.utterances[code], self.codes[utterance.gist]
                gone.append(code)
        return gone

    def since(self, code: int = 0) -> list[tuple[int, Utterance]]:
        """Utterances with this code or a later one, in time proportional to how many they are."""
        if not code:
            return list(self.utterances.items())
        return list(takewhile(lambda item: item[0] >= code, reversed(self.utterances.items())))[::-1]

    def embedding(self, gist: Gist) -> np.ndarray:
        return self.utterances[self.codes[gist]].embedding

    def embeddings(self, codes: Sequence[int]) -> np.ndarray:
        return stacked([self.utterances[code].embedding for code in codes]).astype(np.float32)


def stacked(embeddings: Sequence[np.ndarray]) -> np.ndarray:
    """float16 [n, dimension]. Some at a time: numpy puts small arrays together without releasing the interpreter."""
    table = np.empty((len(embeddings), len(embeddings[0]) if embeddings else 0), np.float16)
    for start in range(0, len(embeddings), STACKED):
        table[start : start + STACKED] = embeddings[start : start + STACKED]
    return table


# As plain values


def plain_gists(gists: Iterable[Gist]) -> list[list[Any]]:
    return [[gist.text, [list(amount) for amount in gist.amounts]] for gist in gists]


def gists_of(plain: Iterable[Sequence[Any]]) -> list[Gist]:
    return [Gist(text, tuple(map(tuple, amounts))) for text, amounts in plain]
