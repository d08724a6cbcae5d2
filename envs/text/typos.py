"""How near two words are, and which words are near one, by the letters that each has left out."""

from __future__ import annotations

from collections.abc import Iterable


def shortened(word: str, most: int) -> set[str]:
    """The word, and what is left of it without one letter, or without up to `most`. Near words have one in common."""
    parts = {word}
    for _ in range(most):
        parts |= {part[:at] + part[at + 1 :] for part in parts for at in range(len(part))}
    return parts


def distance(one: str, other: str, most: int) -> int:
    """Edits (a letter more, less, another, two swapped) between the words; more than `most` counts as `most` + 1."""
    if abs(len(one) - len(other)) > most:
        return most + 1
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
    return min(row[-1], most + 1)


class Near:
    """Words, found by one that is at most so many edits away."""

    def __init__(self, words: Iterable[tuple[str, int]]):
        self.by_part: dict[str, list[str]] = {}
        for word, most in words:
            for part in shortened(word, most):
                self.by_part.setdefault(part, []).append(word)

    def to(self, word: str, left_out: int, most: int) -> dict[str, int]:
        """Those up to `most` edits away that agree with it when so many letters are left out, in the order of the
        alphabet, with their distances."""
        found = sorted({other for part in shortened(word, left_out) for other in self.by_part.get(part, ())})
        far = {other: distance(word, other, most) for other in found}
        return {other: edits for other, edits in far.items() if edits <= most}
