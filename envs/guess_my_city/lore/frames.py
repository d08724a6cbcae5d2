"""What people say around a question, taken away: slang, short forms, politeness, tags at the end.

"so can u tell me, is it in asia or not pls?" -> can be read like "is it in asia"
"""

from __future__ import annotations

import re

from envs.guess_my_city.lore.lists import listed, same, short
from envs.guess_my_city.wording import word_set

SHORT, SAME = short(), same()
_SAME = re.compile(rf"\b(?:{'|'.join(sorted(SAME, key=len, reverse=True))})\b")
_LEADS, _TAILS = listed("leads"), listed("tails")
_LEAD = re.compile(rf"(?:{'|'.join(sorted(_LEADS, key=len, reverse=True))}) ")
_COULD_YOU = re.compile(
    r"^(?:please )?(?:could|can|would|will) you (?:please |kindly )?(?=(?:name|give|state|describe|"
    r"tell|mention|list|say|identify|specify) )"
)
_TAIL = re.compile(rf" (?:{'|'.join(sorted(_TAILS, key=len, reverse=True))})$")
WH = word_set("what which where when who whom whose how why whereabouts")
ASKS = word_set("name give state describe tell mention list say identify specify")
AUXILIARY = word_set(
    "is are was were am do does did has have had can could will would may might must shall should be been being are"
)
NEGATIONS = word_set(
    "not no never without except unlike neither nor none nobody nothing hardly barely rarely seldom "
    "few little lack lacks "
    "outside besides excluding apart non opposite cannot free"
)


FRAME_WORDS = (
    frozenset(word for said in (*_LEADS, *_TAILS, *SHORT.values(), *SAME, *SAME.values()) for word in said.split())
    | WH
    | ASKS
    | AUXILIARY
)
FRAME_WORDS |= NEGATIONS | SHORT.keys()


def plain(words: tuple[str, ...]) -> tuple[str, ...]:
    """Short forms and slang written out, some phrases in plainer words."""
    found: list[str] = []
    if words[:1] == ("its",):
        words = ("it", "is", *words[1:])
    for word in words:
        found += SHORT[word].split() if word in SHORT else (word,)
    return tuple(_SAME.sub(lambda said: SAME[said[0]], " ".join(found)).split())


def bare(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without what is said before and after the question. What is left says something, or all is kept."""
    said = _COULD_YOU.sub("", " ".join(words))
    while (lead := _LEAD.match(said)) and len(said) > lead.end():
        said = said[lead.end() :]
    while (tail := _TAIL.search(said)) and len(said[: tail.start()].split()) >= 2:
        said = said[: tail.start()]
    return tuple(said.split())


def is_open(words: tuple[str, ...]) -> bool:
    """Asks for something rather than for yes or no: "in which country", "name the river"."""
    head = words[:3]
    if not head:
        return False
    if head[0] in ASKS:
        return not AUXILIARY.intersection(words[1:3])
    if head[0] in WH:
        return True
    if head[0] in AUXILIARY:
        return False
    return (
        any(word in WH for word in words[:4])
        or words[0] in ("of", "in", "by", "with", "on", "to", "from", "for")
        and any(word in WH for word in words[:3])
    )
