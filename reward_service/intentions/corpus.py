"""The distinct utterances of the window: gist, embedding, and how often each is in it.

Every gist has a code while it is in use. Embeddings are held as 16-bit floats from the start,
in memory and in checkpoints alike, so that a restored corpus labels as the saved one did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reward_service.intentions.fit import Utterances
from reward_service.intentions.gist import Gist

Embed = Callable[[Sequence[str]], np.ndarray]  # unit rows


@dataclass(slots=True)
class Utterance:
    gist: Gist
    embedding: np.ndarray  # float16 [dimension]
    count: int = 0
    prototype: int = -1  # in the space in use
    far: bool = False  # outside what that space was fitted on


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

    def forget(self, codes: Iterable[int]) -> None:
        """Take one of each out; what is not said any more loses its code."""
        for code in codes:
            utterance = self.utterances[code]
            utterance.count -= 1
            if not utterance.count:
                del self.utterances[code], self.codes[utterance.gist]

    def snapshot(self) -> tuple[list[int], Utterances]:
        """Codes, and what they stand for, in an order that does not depend on who came first."""
        codes = sorted(self.utterances, key=lambda code: self.utterances[code].gist)
        chosen = [self.utterances[code] for code in codes]
        return codes, Utterances(
            gists=[each.gist for each in chosen],
            embeddings=self.embeddings(codes),
            counts=np.array([each.count for each in chosen], np.int64),
        )

    def embeddings(self, codes: Sequence[int]) -> np.ndarray:
        return np.stack([self.utterances[code].embedding for code in codes]).astype(np.float32)
