"""What an utterance means: an offer, a decision, or nothing that is clear.

Two forms are read, whoever speaks them. JSON, bare or in a fenced block with any prose
around it: one flat object, or the same one again. And plain language, which is understood as
a whole or not at all: "i offer you 40 %", "no deal". Where a text could be taken in two ways
- two objects that differ, a key given twice, an offer with a decision, "yes and no" - it
means nothing. Reading depends on the text alone, so it is cached by text.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from envs.glee.labelled import amounts_of, message_of, moves_of, remarks, spaced
from envs.glee.money import NUMBER, UNIT, Amount, amount_of, read_amount
from envs.text.answer import Labels, undecorated

LONGEST_JSON = 10_000  # characters, with all the prose around it
LONGEST_PLAIN = 300
MOST_BRACKETS = 40  # of all kinds: an offer is flat, and depth costs the decoder its stack
CACHED_LENGTH = 600

UNCLEAR = "that is not understood."
NO_AMOUNT = "an amount must be in dollars and whole cents or in percent, and not negative."


@dataclass(frozen=True, slots=True)
class Meaning:
    """`act` is "offer" or what the grammar calls a decision, such as "accept", or empty with the reason in `problem`.
    An offer's amounts are by owner: "me", "you", "alice", "bob", or "price"; None is "the rest"."""

    act: str = ""
    amounts: tuple[tuple[str, Amount | None], ...] = ()
    message: str = ""
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Grammar:
    """How one game's offers and decisions are put."""

    keys: dict[str, str]  # of the offer's JSON, all of them required: key -> owner; none: the message is the offer
    clauses: re.Pattern  # of plain language, where # stands for an amount; the group's name is the owner
    decisions: dict[str, str]  # phrase -> act
    labels: Labels
    fields: dict[str, str]  # kind of a label that an amount follows -> the same in plain language


class _Unclear(Exception):
    pass


def read(text: str, grammar: Grammar) -> Meaning:
    return _cached(text, grammar) if len(text) <= CACHED_LENGTH else understand(text, grammar)


def understand(text: str, grammar: Grammar) -> Meaning:
    for reading in (_from_json,) if "{" in text else (_from_plain, _from_labels):
        with suppress(_Unclear):
            return reading(text, grammar)
    return Meaning(problem=UNCLEAR)


_cached = lru_cache(maxsize=8192)(understand)


# JSON


def _unique(pairs: list[tuple[str, object]]) -> dict:
    found: dict = {}
    for key, value in pairs:
        key = "_".join(key.lower().split())
        if key in found and found[key] != value:
            raise _Unclear
        found[key] = value
    return {key: value for key, value in found.items() if value is not None}


# Numbers stay text until `read_amount`: "1e999999999" costs nothing, 0.1 is a tenth and NaN is a word.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_int=str, parse_float=str, parse_constant=str, strict=False)


def _only_object(text: str) -> dict:
    if len(text) > LONGEST_JSON or text.count("{") + text.count("[") > MOST_BRACKETS:
        raise _Unclear
    objects, place = [], text.find("{")
    while place >= 0:
        try:
            value, place = _DECODER.raw_decode(text, place)
        except ValueError:
            raise _Unclear from None
        objects.append(value)
        place = text.find("{", place)
    if any(each != objects[0] for each in objects):
        raise _Unclear
    return objects[0]


def _from_json(text: str, grammar: Grammar) -> Meaning:
    said = _only_object(text)
    message = said.get("message", "")
    if not isinstance(message, str):
        raise _Unclear
    if "decision" in said:
        decision = said["decision"]
        if not isinstance(decision, str) or not decision.isascii() or not grammar.keys.keys().isdisjoint(said):
            raise _Unclear
        return Meaning(_decision(spaced(decision[:LONGEST_PLAIN]), grammar), message=message)
    if not grammar.keys.keys() <= said.keys():
        raise _Unclear
    amounts = []
    for key, owner in grammar.keys.items():
        amount = read_amount(said[key]) if isinstance(said[key], str) else None
        if amount is None:
            return Meaning(problem=NO_AMOUNT)
        amounts.append((owner, amount))
    return Meaning("offer", tuple(amounts), message)


# plain language

_PLAIN = re.compile(r"[a-z0-9$% \t\r\n.,;:!?'()]*")
_AMOUNT = re.compile(rf"(?<![\w.,$%])(?P<sign>\$?)(?P<number>{NUMBER})(?:\s*(?P<unit>{UNIT}))?")
_QUOTED = re.compile(r'([^"]*)"([^"]*)"[\s.]*')
_TYPED = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"'})

_SMALL = "i we will can am happy to the your this that offer proposal price it its is a then well"
SMALL = (*_SMALL.split(), "thank you", "thanks", "but", "sorry", "have to", "must", "we have", "im")

AGREE = (
    "accept", "accepted", "accept offer", "agree", "agreed", "deal", "yes", "ok", "okay", "sure", "take it",
    "ill take it", "sounds good",
)  # fmt: skip
DECLINE = (
    "reject", "rejected", "reject offer", "decline", "declined", "refuse", "no", "nope", "no deal", "no thanks",
    "no thank you", "no way", "not accept", "do not accept", "dont accept", "cannot accept", "cant accept",
    "wont accept", "not agree", "do not agree", "dont agree", "cannot agree", "cant agree", "not acceptable",
    "not enough", "too low", "too high", "too little", "too much",
)  # fmt: skip


def decisions(leave: tuple[str, ...] = ()) -> dict[str, str]:
    """Phrases to acts; `leave` are those by which a game lets a player take an outside option."""
    known = {**dict.fromkeys(AGREE, "accept"), **dict.fromkeys(DECLINE, "reject"), **dict.fromkeys(leave, "leave")}
    return {**known, **dict.fromkeys(SMALL, "")}


def _from_plain(text: str, grammar: Grammar) -> Meaning:
    if len(text) > LONGEST_PLAIN:
        raise _Unclear
    text, message = text.translate(_TYPED), ""
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        text, message = quoted.groups()
    if not text.isascii():
        raise _Unclear  # look-alikes, some of which turn into plain letters in lower case
    text = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", text.lower())
    if not _PLAIN.fullmatch(text):
        raise _Unclear
    found: list[Amount | None] = []

    def mark(match: re.Match) -> str:
        found.append(amount_of(match))
        return " # "

    text = _AMOUNT.sub(mark, text)
    words = " ".join(re.sub(r"[.,;:!?()]", " ", text.replace("'", "")).split())
    if re.search(r"[0-9$%]", words):
        raise _Unclear
    if not found:
        return Meaning(_decision(words, grammar), message=message)
    owners = _owners(words, grammar)
    if None in found:
        return Meaning(problem=NO_AMOUNT)
    amounts = iter(found)
    return Meaning("offer", tuple((owner, next(amounts) if counted else None) for owner, counted in owners), message)


def _owners(words: str, grammar: Grammar) -> list[tuple[str, bool]]:
    """Whose each amount is; False for "the rest". The clauses have to make up the whole text."""
    found, place = [], 0
    while place < len(words):
        clause = grammar.clauses.match(words, place)
        if clause is None or clause.end() == place:
            raise _Unclear
        if clause.lastgroup is not None:
            found.append((clause.lastgroup, "#" in clause[clause.lastgroup]))
        place = clause.end()
    return found


def _decision(words: str, grammar: Grammar) -> str:
    """The one act that the phrases stand for; longer phrases first, no word left over."""
    found, tokens, place = set(), words.split(), 0
    while place < len(tokens):
        for length in range(min(4, len(tokens) - place), 0, -1):
            act = grammar.decisions.get(" ".join(tokens[place : place + length]))
            if act is not None:
                found.add(act)
                place += length
                break
        else:
            raise _Unclear
    found.discard("")
    if len(found) != 1:
        raise _Unclear
    return found.pop()


# parts with labels


def _from_labels(text: str, grammar: Grammar) -> Meaning:
    """What is said after labels, or after thoughts, or between marks of emphasis."""
    if len(text) > LONGEST_JSON:
        raise _Unclear
    parts = grammar.labels.parts(text)
    if len(parts) == 1:
        return _from_plain(undecorated(text), grammar)
    amounts, moves, message, beside = (
        amounts_of(parts, grammar.fields),
        moves_of(parts),
        message_of(parts),
        remarks(parts),
    )
    if not (amounts or moves or message) and beside:
        moves = [beside.pop()]
    if message is None or bool(amounts) == bool(moves) or len(moves) > 1:
        raise _Unclear
    if any(_says_something(line, grammar) for line in beside):
        raise _Unclear
    meaning = _from_plain(amounts, grammar) if amounts else _labelled(moves[0], grammar)
    return replace(meaning, message=message or meaning.message) if meaning.act == "offer" else meaning


def _labelled(move: str, grammar: Grammar) -> Meaning:
    """After "Proposal:" a price may stand alone, after "Decision:" the name of one."""
    with suppress(_Unclear):
        return _from_plain(move, grammar)
    said = undecorated(move)
    if "price" in grammar.fields and read_amount(said.removesuffix(".")) is not None:
        return _from_plain(grammar.fields["price"].format(said), grammar)
    with suppress(_Unclear):
        return _from_plain(said, grammar)
    return Meaning(_decision(spaced(said[:LONGEST_PLAIN]), grammar))


def _says_something(line: str, grammar: Grammar) -> bool:
    with suppress(_Unclear):
        return bool(_from_plain(line, grammar).act)
    return False
