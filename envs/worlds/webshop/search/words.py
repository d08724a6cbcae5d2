"""The words of a text as the published search engine indexes them: Anserini's default English analyser over Lucene.

    terms_of("The Dog's 2.5-inch collars") -> ["dog", "2.5", "inch", "collar"]

In its order: words by the Unicode rules of word boundaries (letters, digits and underscores; an apostrophe, full stop
or colon holds two letters together, an apostrophe, full stop, comma or semicolon two digits), no possessive 's, no
capitals, none of Lucene's 33 stop words, Porter stems. Not as in Lucene: a run of Chinese, Japanese, Korean or Thai
signs is one word here, and emoji are none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from envs.worlds.webshop.search.porter import stem

_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
LONGEST = 255  # characters of one word; a longer one is cut into several
_WORD = re.compile(
    r"\w+(?:(?:(?<=[^\W\d_])['\u2018\u2019.:\u00b7](?=[^\W\d_])|(?<=\d)['\u2019.,;](?=\d))\w+)*"
)  # fmt: skip
_POSSESSIVE = re.compile(r"['\u2019\uff07][sS]$")


def terms_of(text: str) -> list[str]:
    return [term for word in _WORD.findall(text) for term in _terms(word)]


@lru_cache(maxsize=1 << 18)
def _terms(word: str) -> tuple[str, ...]:
    parts = (word[start : start + LONGEST] for start in range(0, len(word), LONGEST))
    words = (_POSSESSIVE.sub("", part).lower() for part in parts)
    return tuple(stem(each) for each in words if each and each not in STOP_WORDS)
