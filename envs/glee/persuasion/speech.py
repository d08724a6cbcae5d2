"""What is said in persuasion: a recommendation, a decision, or a message in free words.

As in the other games of this room JSON is read, plain words as a whole or not at all, and parts after
labels. A message is all that is said but for labelled thoughts, or the part that JSON or a label calls the message.
"""

from __future__ import annotations

import re

from envs.glee.labelled import aloud, message_of
from envs.glee.speech import Grammar, read
from envs.text.answer import Labels

_LABELS = Labels(
    message=r"(?:message|msg)(?:[ \t_]to[ \t_]\w{1,20})?",
    answer="decision|answer|response|reply|recommendation|advice|choice|action|move",
)
_QUOTED = re.compile(r'"([^"]*)"')
_NOTHING = re.compile(r"(?!)")
_SMALL = (
    "i, we, will, would, can, am, it, the, this, that, product, one, you, to, do, is, a, then, well, so, ok, okay, "
    "thanks, thank, ill, id, im, for, and, bob, alice, buyer, strongly, definitely"
)


def _grammar(yes: str, no: str) -> Grammar:
    """Of phrases with commas between them."""
    acts = {phrase: act for said, act in ((_SMALL, ""), (yes, "yes"), (no, "no")) for phrase in said.split(", ")}
    return Grammar({}, _NOTHING, acts, _LABELS, {})


_ADVICE = _grammar(
    "yes, recommend, recommended, recommend it, recommend to buy, recommend buying, buy, buy it, take it, good",
    "no, not recommend, not recommended, dont recommend, do not recommend, not recommend it, cannot recommend, "
    "cant recommend, not recommend to buy, dont recommend to buy, not recommend buying, do not recommend buying, "
    "dont buy, do not buy, not buy, leave it, bad, not good, pass, skip",
)
_ANSWERS = _grammar(
    "yes, buy, bought, buy it, take it, purchase, deal, accept",
    "no, not buy, dont buy, do not buy, wont buy, will not buy, not purchase, do not purchase, dont purchase, pass, "
    "skip, leave it, not take it, dont take it, decline, reject, no deal",
)


def advice(utterance: str, free: bool) -> bool | str | None:
    """Whether the product is recommended, or in `free` words what is said of it; None if nothing is clear."""
    if free:
        return _message(utterance) or None
    act = read(utterance, _ADVICE).act
    return act == "yes" if act in ("yes", "no") else None


def answered(utterance: str) -> tuple[bool | None, str]:
    """Whether the product is bought, and the message that goes with it."""
    meaning = read(utterance, _ANSWERS)
    return (meaning.act == "yes", meaning.message) if meaning.act in ("yes", "no") else (None, "")


def gist_of(utterance: str) -> str:
    """Without the JSON around it."""
    said = read(utterance, _ANSWERS)
    act = said.act if said.act in ("yes", "no") else ""
    return f"{said.message} {act}".strip() or utterance


def _message(utterance: str) -> str:
    if "{" in utterance:
        meaning = read(utterance, _ADVICE)
        return meaning.message.strip() if meaning.act == "offer" else ""
    said = message_of(_LABELS.parts(utterance))
    quoted = _QUOTED.fullmatch(text := (said or aloud(utterance, _LABELS)).strip())
    return quoted[1].strip() if quoted else text
