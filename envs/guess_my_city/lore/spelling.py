"""Misspelt words put right, where only one word can be meant.

A word that somebody may mean as it stands is left alone. Of the others one letter may be wrong, missing, too many, or
change places with its neighbour; two, in words of eight letters and more.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

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
        self.near: dict[str, list[str]] = {}  # a word without one or two letters -> the words that it may be
        for word in sorted(known if meant is None else meant):
            if len(word) >= SHORTEST and word.isascii():
                for part in shortened(word, edits(word)):
                    self.near.setdefault(part, []).append(word)
        self.word = lru_cache(maxsize=65536)(self._word)

    def words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.word(word) for word in words)

    def _word(self, word: str) -> str:
        if word in self.known or len(word) < SHORTEST or not word.isascii() or not word.isalpha() or len(word) > 20:
            return word
        most = edits(word)
        found: dict[int, list[str]] = {}
        for other in sorted({other for part in shortened(word, most) for other in self.near.get(part, ())}):
            if (far := distance(word, other, most)) <= most:
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


def shortened(word: str, most: int) -> set[str]:
    """The word, and what is left of it without one letter or, if `most` says so, two."""
    parts = {word}
    for _ in range(most):
        parts |= {part[:at] + part[at + 1 :] for part in parts for at in range(len(part))}
    return parts


def distance(one: str, other: str, most: int) -> int:
    """Edits (a letter more, less, another, two swapped) between the words; more than `most` counts as `most` + 1."""
    row, above, before = list(range(len(other) + 1)), [], []
    for place, letter in enumerate(one, start=1):
        row, above, before = [place], row, above
        for at, mark in enumerate(other, start=1):
            cost = min(above[at] + 1, row[at - 1] + 1, above[at - 1] + (letter != mark))
            if place > 1 and at > 1 and letter == other[at - 2] and one[place - 2] == mark:
                cost = min(cost, before[at - 2] + 1)
            row.append(cost)
        if min(row) > most + 1:
            return most + 1
    return row[-1]
