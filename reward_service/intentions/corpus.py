"""The distinct utterances of the window: gist, embedding, and how often each is in it.

Every gist has a code while it is in use. Embeddings are held as 16-bit floats from the start,
in memory and in checkpoints alike, so that a restored corpus labels as the saved one did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from reward_service.intentions.gist import Gist

Embed = Callable[[Sequence[str]], np.ndarray]  # unit rows
STACKED = 1024  # embeddings at once


@dataclass(slots=True)
class Utterance:
    gist: Gist
    embedding: np.ndarray  # float16 [dimension]
    count: int = 0  # the one thing that changes


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

    def unknown(self, gists: Iterable[Gist]) -> list[Gist]:
        """Each once, in order."""
        return [gist for gist in dict.fromkeys(gists) if gist not in self.codes]

    def learn(self, gists: Sequence[Gist], embeddings: np.ndarray) -> list[int]:
        """Codes of new gists. Each must then be counted, or it stays for ever."""
        codes = list(range(self.next_code, self.next_code + len(gists)))
        self.next_code += len(gists)
        for code, gist, embedding in zip(codes, gists, embeddings.astype(np.float16), strict=True):
            self.codes[gist] = code
            self.utterances[code] = Utterance(gist, embedding.copy())
        return codes

    def count(self, codes: Iterable[int]) -> None:
        for code in codes:
            self.utterances[code].count += 1

    def forget(self, codes: Iterable[int]) -> list[int]:
        """Take one of each out; what is not said any more loses its code, which is never given again.
        Those codes."""
        gone = []
        for code in codes:
            utterance = self.utterances[code]
            utterance.count -= 1
            if not utterance.count:
                del self.utterances[code], self.codes[utterance.gist]
                gone.append(code)
        return gone

    def since(self, code: int = 0) -> list[tuple[int, Utterance]]:
        """Those with this code or a later one, in time proportional to how many they are."""
        if not code:
            return list(self.utterances.items())
        return list(takewhile(lambda item: item[0] >= code, reversed(self.utterances.items())))[::-1]

    def embeddings(self, codes: Sequence[int]) -> np.ndarray:
        return stacked([self.utterances[code].embedding for code in codes]).astype(np.float32)


def stacked(embeddings: Sequence[np.ndarray]) -> np.ndarray:
    """float16 [n, dimension]. Some at a time: numpy puts small arrays together without making way."""
    table = np.empty((len(embeddings), len(embeddings[0]) if embeddings else 0), np.float16)
    for start in range(0, len(embeddings), STACKED):
        table[start : start + STACKED] = embeddings[start : start + STACKED]
    return table
