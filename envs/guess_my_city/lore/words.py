"""The stems of words: what "hosted", "hosting" and "hosts" have in common."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

ARTICLES = frozenset(("a", "an", "the"))
IRREGULAR = {
    "won": "win", "held": "hold", "fought": "fight", "built": "build", "grew": "grow", "grown": "grow", "ate": "eat",
    "eaten": "eat", "spoke": "speak", "spoken": "speak", "began": "begin", "ran": "run", "rode": "ride", "men": "man",
    "women": "woman", "children": "child", "people": "people", "cities": "city", "made": "make", "flew": "fly",
    "andes": "andes", "pope": "pope", "popes": "pope", "clubbing": "clubbing",
    "developing": "developing", "seas": "sea", "sees": "see",
    "news": "news", "sporting": "sporting", "doors": "doors",
    "colour": "color", "colours": "color", "coloured": "color", "centre": "center", "centres": "center",
    "harbour": "harbor", "harbours": "harbor", "neighbour": "neighbor", "neighbours": "neighbor",
    "neighbouring": "neighbor", "colonised": "coloniz", "colonise": "coloniz", "theatre": "theater", "written": "write",
    "found": "find", "stood": "stand", "lies": "lie", "lying": "lie", "dies": "die", "taken": "take", "drove": "drive",
}  # fmt: skip


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "zes", "oes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2 and not word.endswith("eed"):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems(words: Iterable[str]) -> tuple[str, ...]:
    """Without articles."""
    return tuple(stem(word) for word in words if word not in ARTICLES)
