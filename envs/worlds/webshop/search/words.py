"""The words of a text as the published search engine indexes them: Anserini's default English analyser over Lucene.

    terms_of("The Dog's 2.5-inch collars") -> ["dog", "2.5", "inch", "collar"]

In its order: words by the Unicode rules of word boundaries (letters, digits and underscores, some letter or digit
among them; an apostrophe, full stop or colon holds two letters together, an apostrophe, full stop, comma or semicolon
two digits; a sign of Chinese or Japanese is a word of its own), no possessive 's, no capitals, none of Lucene's 33
stop words, Porter stems. Not as in Lucene: emoji are no words.
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
_SIGN = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # of Chinese and Japanese: each is a word
_NUMBER = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070\u2074-\u2079\u2080-\u2089\u2150-\u215f\u2460-\u249b"  # in no word
_PART = rf"[^\W{_SIGN}{_NUMBER}]+"
_WORD = re.compile(
    rf"[{_SIGN}]|{_PART}(?:(?:(?<=[^\W\d_])['\u2018\u2019.:\u00b7](?=[^\W\d_])|(?<=\d)['\u2019.,;](?=\d)){_PART})*"
)
_POSSESSIVE = re.compile(r"['\u2019\uff07][sS]$")


def terms_of(text: str) -> list[str]:
    return [term for word in _WORD.findall(text) for term in _terms(word)]


@lru_cache(maxsize=1 << 18)
def _terms(word: str) -> tuple[str, ...]:
    parts = (word[start : start + LONGEST] for start in range(0, len(word), LONGEST))
    words = (_POSSESSIVE.sub("", part).lower() for part in parts)
    return tuple(stem(each) for each in words if each.strip("_") and each not in STOP_WORDS)
