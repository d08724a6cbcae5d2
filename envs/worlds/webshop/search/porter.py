"""The Porter stemmer (Porter, 1980), as Lucene's English analyser applies it: with its author's own two later changes,
bli to ble and logi to log, and words of one or two letters left as they are.

    stem("running") -> "run"      stem("washable") -> "washabl"

A word is read as consonants and vowels; its measure m counts the places where consonants follow a vowel. Each step
takes the first of its endings that fits, and changes it where what stands before it has enough measure.
"""

from __future__ import annotations

import re

_VOWEL, _CONSONANT = "[aeiou]", "[^aeiou]"
SECOND = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
THIRD = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
FOURTH = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "sion", "tion", "ism", "ate", "iti", "ous", "ive",
    "ize", "al", "er", "ic", "ou",
)  # fmt: skip


def _kinds(word: str) -> str:
    """v for a vowel, c for a consonant; y is a vowel after a consonant."""
    kinds = ""
    for letter in word:
        kinds += "v" if letter in "aeiou" or (letter == "y" and kinds.endswith("c")) else "c"
    return kinds


def _measure(word: str) -> int:
    return len(re.findall("vc", re.sub(r"(.)\1+", r"\1", _kinds(word))))


def _has_vowel(word: str) -> bool:
    return "v" in _kinds(word)


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _kinds(word)[-1] == "c"


def _short(word: str) -> bool:
    """Consonant, vowel, consonant at the end, the last one not w, x or y."""
    return _kinds(word)[-3:] == "cvc" and word[-1] not in "wxy"


def stem(word: str) -> str:
    """`word`: without capitals."""
    if len(word) <= 2:
        return word
    word = _endings_of_verbs(_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    for endings in (SECOND, THIRD):
        ending = _longest(word, endings)
        if ending and _measure(word[: -len(ending)]) > 0:
            word = word[: -len(ending)] + endings[ending]
    return _tidied(_bare(word))


def _longest(word: str, endings: dict[str, str] | tuple[str, ...]) -> str:
    return max((each for each in endings if word.endswith(each)), key=len, default="")


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _endings_of_verbs(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    before = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if not before or not _has_vowel(before):
        return word
    if before.endswith(("at", "bl", "iz")):
        return before + "e"
    if _doubled(before) and before[-1] not in "lsz":
        return before[:-1]
    return before + "e" if _measure(before) == 1 and _short(before) else before


def _bare(word: str) -> str:
    """An ending that stands after a measure of two is taken off; of -sion and -tion only -ion."""
    ending = _longest(word, FOURTH)
    if not ending:
        return word
    before = word[:-3] if ending in ("sion", "tion") else word[: -len(ending)]
    return before if _measure(before) > 1 else word


def _tidied(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
