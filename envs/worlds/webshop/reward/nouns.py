"""Which words of a product's name are nouns: the published reward compares those of what was bought and was wanted.

    nouns_by("words")("Soft Wool Scarf for Women") -> ["wool", "scarf", "women"]

"words" needs no package: a word of two letters or more is a noun unless it is one of a list of function words, verbs
and adjectives that are common in product names, or ends like an adverb or adjective. The published tagger is spaCy's
en_core_web_lg; named here, it is asked instead: nouns and proper nouns, as published. The two
can differ in a reward where few words of a name are nouns, or where two names have few words in common.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

WORDS = "words"
Nouns = Callable[[str], list[str]]
_FUNCTIONS = """
a about above after all also an and any are as at be been before below between both but by can down during each either
every few for from had has have he her here hers him his how i if in into is it its just like made make makes many me
more most much my neither no nor not now of off on once one only onto or other our out over own per she so some such
than that the their them then there these they this those through to too two three four five six seven eight nine ten
under until up upon us very via was we were what when where which while who will with within without you your
"""
_VERBS = """
assembled built buy come contains designed featuring fit fits get give go including included includes inspired keep
listed packed printed use used using wear works
"""
_ADJECTIVES = """
active adjustable amazing anti automatic available beautiful best better big bright casual cheap classic clean clear
cold comfortable compatible complete compact cool cute daily deep digital disposable double dry dual durable easy
elastic electric elegant essential extra fashionable fast fine firm flat flexible foldable formal free fresh full fun
functional funny genuine gentle good great handmade happy hard healthy heavy high hot hydrating indoor inner instant
large last latest lightweight little long loose low luxury magnetic main max medium mini modern multi multiple narrow
natural new nice non old organic original outdoor outer perfect personal plain plus portable powerful pre premium
pretty professional pure quick quiet real rechargeable regular removable replaceable replacement reusable rich round
same sensitive sexy sharp short simple single slim small smart smooth soft solid special square stainless standard
steady sterile straight strong stylish super sweet tall thick thin tiny total traditional transparent true ultra
unique universal upgraded vintage warm washable waterproof wide wireless young
"""
OTHERS = frozenset(f"{_FUNCTIONS} {_VERBS} {_ADJECTIVES}".split())
_ENDINGS = ("ly", "able", "ible", "less", "ish", "ous", "proof", "ful")
_WORD = re.compile(r"[^\W\d_]+")


def nouns_by(tagger: str) -> Nouns:
    return _by_words if tagger == WORDS else partial(_by_pipeline, _pipeline(tagger))


@lru_cache(maxsize=1 << 14)
def _by_words(name: str) -> list[str]:
    words = [word for word in _WORD.findall(name.lower()) if len(word) > 1]
    return [word for word in words if word not in OTHERS and not word.endswith(_ENDINGS)]


def _by_pipeline(pipeline: Any, name: str) -> list[str]:
    return [token.text.lower() for token in pipeline(name) if token.pos_ in ("NOUN", "PROPN")]


@lru_cache(maxsize=4)
def _pipeline(tagger: str) -> Any:
    how = f"pip install spacy, then python -m spacy download {tagger}; or take {WORDS!r}"
    try:
        return import_module("spacy").load(tagger)
    except ImportError as missing:
        raise ValueError(f"game option tagger={tagger!r} needs the package {missing.name}: {how}") from None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:60]
        raise ValueError(
            f"game option tagger={tagger!r} is no pipeline of spaCy that is here ({reason}): {how}"
        ) from None
