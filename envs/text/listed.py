"""Games whose actions are listed: which of them an utterance names, and how they are put in order.

An utterance names a listed action if it is that action, letter for letter, but for upper
case (A is not a where both are listed), space around it and one final period. So does what
follows a label ("Action: ..."). Without a label a line that is the last one or a paragraph does,
or a sentence of it, also after a plain "I will" or "the next step is to", if the utterance
names no other one. Everything else names none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from envs.text.answer import THOUGHT, Labels, Part, sentences, undecorated, unlabelled

LONGEST = 400  # characters; anything longer is not one action

LABELS = Labels(action="action|command|move|step", answer="answer|response|choice|decision|output")

# What may stand before an action without a word against it.
_LEAD = re.compile(
    r"(?:(?:so|ok|okay|now|next|first|then|finally|great|alright|well|therefore|thus|"
    r"(?:to|based on|given|since|as) [^,.\n]{1,80}(?=,)),? +)*"
    r"(?:(?:i|you|we|the agent)(?:(?:['\u2019]ll| will| should| must| choose to| need to| have to| want to|"
    r" am going to|['\u2019]d like to| would like to| think (?:i|we|you) should)"
    r"(?: now| next| first| then| go ahead and)*)? +"
    r"|let (?:me|us) +|(?:my|your|the) (?:next |first |final |best |chosen )*(?:action|step|move|choice|decision)"
    r"(?: here| now)? (?:is|will be|would be|should be)(?: to)?:? +)?",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"[\[\]<>]")
_ARTICLES = re.compile(r"\b(?:the|an?) ")


def named(utterance: str, listed: Sequence[str]) -> str | None:
    """The listed action that the utterance names. The listed ones may hold capitals."""
    action = _exactly(utterance, listed)
    if action is not None:
        return action
    parts = LABELS.parts(utterance)
    said = _labelled(parts)
    if said:
        return _in_line(said[0], listed) if len(said) == 1 else None
    if len(utterance) > LONGEST and "\n" not in utterance:  # one line, and too long
        return None
    return _in_paragraphs(unlabelled(parts), listed)


def gist(utterance: str) -> str:
    """What of an utterance is compared with others: the action without label and thoughts."""
    parts = LABELS.parts(utterance)
    said = _labelled(parts) or [line for paragraph in unlabelled(parts) for line in paragraph]
    return said[0] if len(said) == 1 else utterance


def _labelled(parts: list[Part]) -> list[str]:
    """What follows labels, each text once."""
    said = {_plain(part.first): part.first for part in parts[1:] if part.kind != THOUGHT}
    return [each for each in said.values() if each]


def _in_paragraphs(paragraphs: list[list[str]], listed: Sequence[str]) -> str | None:
    """The one action that is named. It is the last line or a paragraph, and none of several in a row."""
    found: set[str] = set()
    alone = False
    for paragraph in paragraphs:
        for line in paragraph:
            for piece in dict.fromkeys((line, *sentences(line))):
                if (action := _in_line(piece, listed)) is not None:
                    found.add(action)
                    alone |= len(paragraph) == 1 or line is paragraphs[-1][-1]
    return found.pop() if len(found) == 1 and alone else None


def _in_line(line: str, listed: Sequence[str]) -> str | None:
    line = undecorated(line)
    if len(line) > LONGEST:
        return None
    after = line[_LEAD.match(line).end() :]
    said = {_plain(line), _plain(after)}
    found = [action for action in listed if _plain(undecorated(action)) in said]
    if len(found) > 1:
        found = [action for action in found if action in (_trimmed(line), _trimmed(after))]
    if not found and _BRACKETS.search(line):  # "[go to] kitchen": where actions are published so, articles are left out
        bare = _bare(_BRACKETS.sub(" ", line))
        found = [action for action in listed if _bare(action) == bare]
    return found[0] if len(found) == 1 else None


def _exactly(text: str, listed: Sequence[str]) -> str | None:
    if len(text) > LONGEST:
        return None
    said = _trimmed(text)
    return said if said in listed else next((action for action in listed if action.lower() == said.lower()), None)


def _trimmed(text: str) -> str:
    return text.strip().removesuffix(".").rstrip()


def _plain(text: str) -> str:
    return _trimmed(text).lower()


def _bare(action: str) -> str:
    return _ARTICLES.sub("", " ".join(_plain(action).split()))


def order_of(count: int, seed: int, shuffle: bool) -> tuple[int, ...]:
    """In which order `count` actions are listed in this episode, so that the place of an
    action in the list gives nothing away."""
    places = list(range(count))
    if shuffle:
        random.Random(f"order {seed}").shuffle(places)
    return tuple(places)


def menu_of(listed: Sequence[str]) -> str:
    return f"You can: {'; '.join(listed)}."


def yes_or_no(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"game option {option}={value!r} must be true or false")
    return value


class Chooser:
    """Takes its own advice with probability `wisdom`, else any listed action."""

    wisdom: float = 1.0

    def __init__(self, **options):
        """Players are given all options of the game; each takes the ones that it needs."""

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"chooser {seed}")

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        advice = self.advice(observation, actions)  # always asked: it may remember what it sees
        said = advice if self.random.random() < self.wisdom else self.random.choice(actions)
        self.said(said)
        return said

    def advice(self, observation: str, actions: tuple[str, ...]) -> str:
        return self.random.choice(actions)

    def said(self, action: str) -> None:
        """What was chosen in the end, for players that remember it."""
