"""Where in the utterance of a language model its answer stands.

    **Question 7:** Is it a cat?        after one of the game's labels, whatever marks are around it
    <answer>a cat</answer>  \\boxed{cat}  between tags, or as {"answer": "a cat"}
    Thought: It may be a cat.           thinking aloud is no answer
    I will narrow it down.              without a label the answer is a line of its own
    Is it alive?

Which labels there are, each game says. What an answer means is not known here, so nothing is guessed: two labelled
answers that differ are both given, and the game takes neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

LONGEST = 20_000  # characters; what is longer says nothing
SHORT = 400  # characters; in what is longer a label is looked for only where there are colons or tags
LINE = 1000  # characters; a longer line says nothing
LAYERS = 6  # of marks around a line

THOUGHT = "thought"  # the kind of parts that think aloud
_THOUGHTS = (
    "thoughts?|thinking|reasons?|reasoning|rationale|analysis|explanation|plan|strategy|observations?|reflection|"
    "notes?|context|deductions?|inference|summary|result|step"
)

_QUOTES = "\"'\u2018\u2019\u201c\u201d\u00ab\u00bb"
_BEFORE = rf"[ \t>#*_~`{_QUOTES}(\[\u2022\u00b7-]{{0,12}}+"
_ITEM = r"(?:\d{1,3}[.)][ \t]{1,3}|\(\d{1,3}\)[ \t]{1,3})?[*_~`]{0,3}"
_LEAD = (
    r"(?:(?:so|ok|okay|alright|all right|right|well|now|then|and|great|good|thanks|thank you|sure|hmm|finally|"
    r"here is|here['\u2019]?s|this is)[,!.]?[ \t]+){0,3}"
    r"(?:(?:based on|given|considering|judging by|going by|with|from|after)\b[^.:?!\n]{1,80},[ \t]+)?"
)
_ORDER = (
    "first|second|third|fourth|fifth|next|new|another|one|last|final|best|current|closing|follow[- ]?up|"
    "yes[/ -](?:or[ -])?no|chosen|proposed|short|single"
)
_ADJECTIVES = rf"(?:(?:my|the|your|our|a|an|this|{_ORDER})[ \t]+){{0,4}}"
_NUMBER = r"[ \t]*[(\[]?(?:#|no\.?|number|num\.?)?[ \t]*\d{1,3}(?:[ \t]*(?:/|of|out of)[ \t]*\d{1,3})?[)\]]?"
_CLOSE = rf"[*_~`{_QUOTES}\])]{{0,4}}"
_COLON = r"[ \t]*[:\uff1a]"
_ALONE = r"(?=[ \t]*(?:\n|\Z))"
_PARENTHESIS = re.compile(r"(?<=[?.!])[ \t]*\([^()?]{0,200}\)[ \t]*$")
_LIST_MARK = re.compile(r"(?:[-*\u2022\u00b7>+]|#{1,6}|\d{1,3}[.)]|\(\d{1,3}\))[ \t]+")
_PAIRS = {"[": "]", "(": ")", "<": ">", "{": "}"}
_FENCE = re.compile(r"^[ \t]*```[ \t]*\w{0,12}[ \t]*$", re.MULTILINE)
_BOXED = re.compile(r"\\boxed\{(?:\\text\{)?([^{}\n]{0,400})\}")
_SENTENCES = re.compile(
    r"(?<=\w\w[.!?])(?<!\b[SsMm]t\.)[ \t]+|(?<=[\"'*)][.!?])[ \t]+|(?<=[.!?][\"'*)])[ \t]+"
    r"|[ \t]+[\u2013\u2014-][ \t]+(?=(?:is|are|was|could|can|does|do|has|have|would)\b)",
    re.IGNORECASE,
)


class Part(NamedTuple):
    kind: str  # of label; empty for what stands before the first one
    text: str  # up to the next label

    @property
    def first(self) -> str:
        """Its first line that says something."""
        return next((line for line in self.lines if line), "")

    @property
    def rest(self) -> list[str]:
        """What follows that line."""
        lines = self.lines
        return lines[lines.index(self.first) + 1 :] if self.first else []

    @property
    def lines(self) -> list[str]:
        return [undecorated(line) for line in _FENCE.sub("", self.text).split("\n") if len(line) <= LINE]


class Labels:
    """The labels of one game: of each kind the nouns, as a pattern. `short` ones need a colon or a number."""

    def __init__(self, short: dict[str, str] | None = None, **kinds: str):
        self.kinds = kinds
        thoughts = "" if THOUGHT in kinds else f"|(?P<{THOUGHT}>{_THOUGHTS})"
        nouns = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items()) + thoughts
        letters = "|".join(f"(?P<{kind}_letter>{pattern})" for kind, pattern in (short or {}).items()) or "(?!)"
        numbered = rf"{_NUMBER}{_CLOSE}(?:{_COLON}|[ \t]*[.)\u2013\u2014-](?=[ \t*]))"
        asked = (
            r"(?P<asks>(?:let me|may i|i(?:['\u2019]ll| will| would| want to| would like to|['\u2019]d like to)?)"
            r" (?:ask|guess|make (?:a|my|one) guess)(?: you)?(?: this)?)"
        )
        self._label = re.compile(
            rf"(?:^{_BEFORE}{_ITEM}|(?<=[.!?;])[ \t]+|(?<=[.!?;][*\"')])[ \t]+){_LEAD}{_ADJECTIVES}(?:"
            rf"(?:{nouns})(?:[ \t]+(?:is|would be|will be))?"
            rf"(?:{numbered}|{_CLOSE}(?:{_COLON}|[ \t]+[\u2013\u2014-](?=[ \t])|{_ALONE}))"
            rf"|(?:{letters})(?:{numbered}|{_CLOSE}{_COLON}|(?<=[qQ])\.(?=[ \t]))|{asked}{_COLON})[*_~`]{{0,4}}",
            re.IGNORECASE | re.MULTILINE,
        )
        self._tag = re.compile(
            rf"<[ \t]*({'|'.join(kinds.values())})[ \t]*>(.{{0,400}}?)(?:<[ \t]*/[ \t]*\1[ \t]*>|\Z)",
            re.IGNORECASE | re.DOTALL,
        )

        self._key = re.compile(
            rf'"({"|".join(kinds.values())})"[ \t]{{0,9}}:[ \t]{{0,9}}"([^"\\\n]{{0,400}})"', re.IGNORECASE
        )

    def parts(self, text: str) -> list[Part]:
        """The text from label to label; the first part is what stands before them and may be empty."""
        if len(text) > LONGEST:
            return [Part("", "")]
        if len(text) > SHORT and not any(mark in text for mark in (":", "\uff1a", "<", "\\boxed")):
            return [Part("", text)]
        found = [tag for tag in (*self._tag.finditer(text), *self._key.finditer(text)) if tag[2].strip()]
        if found:
            return [Part("", ""), *(Part(self._kind_of(tag[1]), tag[2]) for tag in found)]
        if boxed := _BOXED.findall(text):
            return [Part("", ""), *(Part(next(reversed(self.kinds)), each) for each in boxed)]
        labels = list(self._label.finditer(text))
        ends = [*(label.start() for label in labels), len(text)]
        kinds = [label.lastgroup.removesuffix("_letter") for label in labels]
        cut = [text[label.end() : end] for label, end in zip(labels, ends[1:], strict=True)]
        return [Part("", text[: ends[0]]), *map(Part, kinds, cut)]

    def _kind_of(self, noun: str) -> str:
        return next(kind for kind, pattern in self.kinds.items() if re.fullmatch(pattern, noun, re.IGNORECASE))


def paragraphs(part: Part) -> list[list[str]]:
    return _paragraphs(part.lines)


def unlabelled(parts: list[Part]) -> list[list[str]]:
    """The lines without those that have a label, paragraph by paragraph."""
    return _paragraphs(line for part in parts for line in (part.rest if part.kind else part.lines))


def _paragraphs(lines: Iterable[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in lines:
        if line:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [paragraph for paragraph in found if paragraph]


def sentences(line: str) -> list[str]:
    return [each for each in _SENTENCES.split(line) if each]


def undecorated(text: str) -> str:
    """A line without marks around it: of lists, of emphasis, quotes, brackets."""
    for _ in range(LAYERS):
        before = text
        text = _LIST_MARK.sub("", text.strip(), count=1) if _LIST_MARK.match(text.strip()) else text.strip()
        text = _PARENTHESIS.sub("", text).strip(f"*_~`{_QUOTES} \t")
        if text[:1] in _PAIRS and text.endswith(_PAIRS[text[0]]):
            inner = text[1:-1]
            text = inner if not set(inner) & {text[0], text[-1]} else text
        if text == before:
            break
    return text
