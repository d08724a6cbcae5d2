"""Text to words, and words to numbers. Words are compared folded: lower case, no marks on letters.

Folding takes away accents (Bogotá is Bogota) and typographic variants of one letter, but
never turns a letter of one alphabet into one of another: a Cyrillic "а" stays what it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

LONGEST = 300  # characters; anything longer is not one question

_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "ı": "i",
        "'": "",
        "\u2019": "",
    }
)
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_INITIALS = re.compile(r"\b(?:[^\W\d_]\.){2,}")
_ONES = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SMALL_NUMBERS = {word: float(number) for number, word in enumerate(_ONES, start=2)} | {
    "fifteen": 15.0,
    "twenty": 20.0,
    "thirty": 30.0,
    "forty": 40.0,
    "fifty": 50.0,
}
_POWERS = {"hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "millions": 1e6, "mio": 1e6, "mn": 1e6}
_POWERS |= {"billion": 1e9}


def fold(text: str) -> str:
    if text.isascii():
        return text.lower().replace("'", "")
    plain = unicodedata.normalize("NFKD", text.casefold()).translate(_LETTERS)
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Mn")


def words_of(text: str) -> tuple[str, ...]:
    """Folded words and numbers; apostrophes vanish, dots of initials too ("D.C."), other marks part words."""
    return tuple(_WORD.findall(_INITIALS.sub(lambda found: found[0].replace(".", ""), fold(text))))


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def key_of(value: str) -> str:
    """What a value of the table is known by: its words without an article."""
    words = words_of(value)
    return " ".join(words[1:] if len(words) > 1 and words[0] in ("the", "a", "an", "its") else words)


def join_values(values: Sequence[str]) -> str:
    return " and ".join([", ".join(values[:-1]), values[-1]] if len(values) > 1 else values)


def number_at(words: Sequence[str], place: int) -> tuple[float, int] | None:
    """The number that starts at `place` and how many words it takes: "half a million", "1.5 million", "500"."""
    start = place
    if tuple(words[place : place + 2]) == ("half", "a"):
        value, place = 0.5, place + 2
        if place == len(words) or words[place] not in _POWERS:
            return None
    elif words[place] in ("a", "one") and words[place + 1 : place + 2] and words[place + 1] in _POWERS:
        value, place = 1.0, place + 1
    elif words[place] in _SMALL_NUMBERS:
        value, place = _SMALL_NUMBERS[words[place]], place + 1
    elif words[place][0].isascii() and words[place][0].isdigit():
        value, place = _figure(words[place]), place + 1
    else:
        return None
    while place < len(words) and words[place] in _POWERS:
        value, place = value * _POWERS[words[place]], place + 1
    return value, place - start


def _figure(digits: str) -> float:
    digits = digits.replace(",", "")
    if digits.count(".") > 1:
        digits = digits.replace(".", "")
    try:
        return float(digits)
    except ValueError:  # digits of another script
        return float("nan")
