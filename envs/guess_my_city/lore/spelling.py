"""Misspelt words put right, where only one word can be meant.

A word that somebody may mean as it stands is left alone. Of the others one letter may be wrong, missing, too many, or
change places with its neighbour; two, in words of eight letters and more.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from envs.text.typos import Near

ENGLISH = Path(__file__).parent / "english.csv"  # common words that are near words of the tables, one a line
SHORTEST = 4
LONG = 8


@lru_cache(maxsize=1)
def english() -> frozenset[str]:
    return frozenset(ENGLISH.read_text(encoding="utf-8").split())


class Speller:
    def __init__(self, known: Iterable[str], meant: Iterable[str] | None = None, frequent: Iterable[str] = ()):
        """`meant`: words that a misspelt one may be, all known ones if None; of two equally near, one of `frequent`."""
        known = frozenset(known)
        self.known = known | english()
        self.frequent = frozenset(frequent)
        may_be = known if meant is None else meant
        self.near = Near((word, edits(word)) for word in may_be if len(word) >= SHORTEST and word.isascii())
        self.word = lru_cache(maxsize=65536)(self._word)

    def words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.word(word) for word in words)

    def _word(self, word: str) -> str:
        if word in self.known or len(word) < SHORTEST or not word.isascii() or not word.isalpha() or len(word) > 20:
            return word
        found: dict[int, list[str]] = {}
        most = edits(word)
        for other, far in self.near.to(word, most, most).items():
            found.setdefault(far, []).append(other)
        for _, near in sorted(found.items()):
            common = [other for other in near if other in self.frequent]
            alike = [other for other in (common or near) if sorted(other) == sorted(word)]
            first = [other for other in (common or near) if other[0] == word[0]]
            for chosen in (common or near, alike, first):
                if len(chosen) == 1:
                    return chosen[0]
            return word
        return word


def edits(word: str) -> int:
    return 2 if len(word) >= LONG else 1
