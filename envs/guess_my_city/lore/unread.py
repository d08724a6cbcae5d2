"""What may not be passed over: a word that makes a question narrower, older or another one, and that nothing explains.

"is it the main city of France?"      asks more than whether it is in France
"was it once the capital?"            asks for the past
"did Einstein come from there?"       asks for a life, not for what a place is famous for
"""

from __future__ import annotations

import re

from envs.guess_my_city.lore.fillers import LIVES, ORIGINS, PAST, PERSONS
from envs.guess_my_city.lore.words import ARTICLES, stem, stems
from envs.guess_my_city.topics import Meaning, Topic
from envs.guess_my_city.wording import word_set

SUPERLATIVE = re.compile(
    r"\b(?:the|its|one of|with) (?:\w+ )?(?:most|least)\b(?! (?:of|people|part)\b)"
    r"|\bwith (?:the )?(?:most|fewest)\b|\bthe (?:best|worst)\b"
    r"|\b(?:main|chief|principal|primary|foremost|number one|top) (?:city|town|port|place|resort|centre|center)\b"
    r"|\b(?!(?:\w*west|\w*forest|rest|guest|request|interest|harvest|nearest|closest|honest|modest|manifest)\b)"
    r"(?!budapest|bucharest)\w{3,}est\b"
)
WHERE = word_set("continent region country province river sea capital hemisphere island mountains")
LIVED = word_set("did lived")
PEOPLES = word_set("inca aztec maya viking roman greek")  # as stems
LONG_AGO = word_set("once formerly previously former earlier")
USED_TO_BE = re.compile(r"\b(?:used?|did it use) to (?:be|have)\b")
HIGHER = stem("above")  # sea level: not at it
NOW, BEFORE = "capital of sovereign state", "former capital"
IN_ANY_TENSE = word_set("founded olympics landmark fame nickname food guess name")
_CAPITAL = word_set(
    "was were is it has have had been be being did does used use to the a an its your of that this city town place "
    "capital country countrys nation nations national state ever once formerly previously former earlier before at "
    "some any one point time times in past history there seat government"
)


def is_narrower(meaning: Meaning, words: tuple[str, ...]) -> bool:
    """Whether a superlative is left out of a question where it is."""
    return meaning.topic in WHERE and not meaning.open and SUPERLATIVE.search(" ".join(words)) is not None


def is_of_a_life(words: tuple[str, ...], phrases: list[str], rest: list[str], of_country: bool = False) -> bool:
    """`phrases` are stems that the tables explain, `rest` those that they do not. From which country people come is
    what the tables know of them."""
    if not LIVES.isdisjoint(rest):
        return True
    if of_country:
        return False
    somebody = not PERSONS.isdisjoint(phrases) or not LIVED.isdisjoint(words) and PEOPLES.isdisjoint(phrases)
    return somebody and not ORIGINS.isdisjoint(rest)


def leaves_out(words: tuple[str, ...], free: list[int]) -> bool:
    """Whether a superlative stands outside of what is explained. `free`: places, articles not counted."""
    said, at = [], -1
    for word in words:
        at += word not in ARTICLES
        said.append(word if word in ARTICLES or at in free else ".")
    return SUPERLATIVE.search(" ".join(said)) is not None


def in_its_tense(meaning: Meaning | None, words: tuple[str, ...], topics: dict[str, Topic]) -> Meaning | None:
    """What was once so is another thing than what is so; nothing of the past is known of most."""
    if meaning is None or meaning.open:
        return meaning
    capital = meaning.topic == "capital" and meaning.value == "yes" or meaning.value == NOW
    if capital and (PAST | {"ever", "use"}).intersection(words):
        if not _CAPITAL.issuperset(words):
            return None  # "was it the capital during the war?"
        return Meaning("thing", value=BEFORE if _long_ago(words) else f"{NOW}|{BEFORE}")
    if not _long_ago(words):
        return meaning
    of_now = meaning.topic in topics and meaning.topic not in IN_ANY_TENSE
    return None if of_now or SUPERLATIVE.search(" ".join(words)) else meaning


def _long_ago(words: tuple[str, ...]) -> bool:
    return not LONG_AGO.isdisjoint(words) or USED_TO_BE.search(" ".join(words)) is not None


def is_unread(words: tuple[str, ...]) -> bool:
    """Whether a question is too narrow for its nearest or its paraphrase."""
    return (
        is_of_a_life(words, list(stems(words)), list(stems(words))) or SUPERLATIVE.search(" ".join(words)) is not None
    )
