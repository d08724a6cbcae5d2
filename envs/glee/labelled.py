"""Offers and answers of which each part stands after a label of its own.

    Thought: 60 is fair.                    not read
    Message: Fair, is it not?               delivered with the offer
    Proposal: I keep 60 and you get 40.     or "Alice: $60" and "Bob: $40", or "Price: $115"
    Decision: accept

Said is one thing: an offer, the amounts that make one, or a decision. The rest may be anything that is neither.
"""

from __future__ import annotations

import re

from envs.text.answer import THOUGHT, Labels, Part, paragraphs, undecorated

_SHARE = r"(?:[ \t_](?:gain|share|part|amount|money|gets|keeps|takes|receives))?"
_PERSON = r"(?:['\u2019]?s)?"
_GET = r"(?:get|keep|take|receive)"

PLACES = {"alice": "alice gets {}", "bob": "bob gets {}", "me": "i keep {}", "you": "you get {}"}
PRICES = {"price": "my price is {}"}
MESSAGE = "message"

_OFFER = "counter[- ]?(?:offer|proposal)|offer|proposal|division|split|action|move"
_ANSWER = "decision|answer|response|reply"
_SAID = r"(?:message|msg)(?:[ \t_]to[ \t_]\w{1,20})?"

DIVIDING = Labels(
    message=_SAID,
    alice=rf"alice{_PERSON}{_SHARE}",
    bob=rf"bob{_PERSON}{_SHARE}",
    me=rf"i[ \t]{_GET}|my[ \t](?:gain|share|part)|me",
    you=rf"you[ \t]{_GET}|your[ \t](?:gain|share|part)|you",
    offer=_OFFER,
    answer=_ANSWER,
)
PRICING = Labels(
    message=_SAID,
    price=r"(?:product|asking)[ \t_]price|price|bid",
    offer=_OFFER,
    answer=_ANSWER,
)


def amounts_of(parts: list[Part], clauses: dict[str, str]) -> str:
    """The labelled amounts in plain words."""
    said = dict.fromkeys((part.kind, part.first) for part in parts[1:] if part.kind in clauses and part.first)
    return ", ".join(clauses[kind].format(amount) for kind, amount in said)


def moves_of(parts: list[Part]) -> list[str]:
    """The labelled offers and answers, each once, as they were written: a message may be quoted in them."""
    said = {part.first: part for part in parts[1:] if part.kind in ("offer", "answer") and part.first}
    return [next(line.strip() for line in part.text.split("\n") if undecorated(line)) for part in said.values()]


def message_of(parts: list[Part]) -> str | None:
    """The message as one line; None where there are several."""
    found = {" ".join(paragraphs(part)[0]) for part in parts if part.kind == MESSAGE and part.first}
    return found.pop() if len(found) == 1 else None if found else ""


def aloud(text: str, labels: Labels) -> str:
    """Free words without labelled thoughts: the message, or else what stands beside them. A thought is a paragraph, or
    a line where there is one paragraph only."""
    parts = labels.parts(text)
    if all(part.kind != THOUGHT for part in parts):
        return text
    return message_of(parts) or "\n".join(line for part in parts for line in _aloud(part) if line)


def _aloud(part: Part) -> list[str]:
    if part.kind != THOUGHT:
        return part.lines
    return [line for paragraph in paragraphs(part)[1:] for line in paragraph] or part.rest


def remarks(parts: list[Part]) -> list[str]:
    """The lines beside all that: what follows the first paragraph of a message is for nobody."""
    lines: list[str] = []
    for part in parts:
        if part.kind == MESSAGE:
            lines += [line for paragraph in paragraphs(part)[1:] for line in paragraph]
        else:
            lines += part.rest if part.kind else part.lines
    return [line for line in lines if line]


def spaced(decision: str) -> str:
    """AcceptOffer and sell_to_john as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.!-]", " ", decision).lower()
