"""What a guesser says in one turn: the question or the guess in an utterance, in whatever form models put it.

    Question: Is it a cat?              what the label names, and nothing else of the utterance
    I'll narrow it down.                without a label the one sentence that asks, if no other line guesses;
    Is it alive?                        else the one line that guesses, else the last

Two labelled answers, two sentences that ask, two guesses: none of them is taken.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from envs.text.answer import THOUGHT, Labels, Part, sentences, undecorated, unlabelled

M = TypeVar("M")
Reading = Callable[[str], M | None]

LABELS = Labels(
    {"question": "q", "guess": "a"},
    question="question|query|guesser|turn|round|action|response|output",
    guess="guess|answer|solution",
)
_IN_VIEW_OF = re.compile(  # "based on your answers so far, ..."
    r"^(?:based on|given|considering|judging by|going by|with|from|after)\b[^.:?!,]{0,60}?\b"
    r"(?:answers?|clues?|information|hints?|facts|responses?|replies|know|told me)\b[^.:?!,]{0,30},[ \t]*",
    re.IGNORECASE,
)
SILENT = {  # after a label
    "", "-", "yes", "no", "invalid", "none", "n/a", "nothing", "not yet", "none yet", "unknown", "thanks", "thank you",
    "great", "good", "ok", "okay", "sure",
}  # fmt: skip


class Asked(NamedTuple):
    text: str
    is_guess: bool = False  # by its label


def labelled(parts: list[Part]) -> list[Asked]:
    """The labelled answers that differ."""
    found: dict[str, Asked] = {}
    for part in parts[1:]:
        said = part.first
        if part.kind != THOUGHT and (key := said.lower().strip(" .?!")) not in SILENT:
            found.setdefault(key, Asked(said, part.kind == "guess"))
    return list(found.values())


def _unlabelled(parts: list[Part]) -> list[str]:
    return [line for paragraph in unlabelled(parts) for line in paragraph]


def _without_pictures(text: str) -> str:
    """Typographic dashes as plain ones, and no emoji. Letters stay as they are: some look like others."""
    text = text.replace("\u2013", "-").replace("\u2014", "-").replace("\u2026", "...")
    return "".join(each for each in text if unicodedata.category(each) != "So" and each not in "\ufe0f\u200d")


def read(text: str, understand: Reading, guess: Reading) -> M | None:
    """What the utterance means: `understand` reads one question or guess, `guess` only a guess."""
    parts = LABELS.parts(text if text.isascii() else _without_pictures(text))
    found = labelled(parts)
    if found:
        return _labelled(found[0], understand, guess) if len(found) == 1 else None
    lines = _unlabelled(parts)
    if any(part.kind == THOUGHT for part in parts):
        return _lines(lines, understand, guess)
    if len(lines) < 2:
        return _line(lines[0], understand, guess) if lines else None
    meaning = _lines(lines, understand, guess)
    return understand(text) if meaning is None else meaning


def _labelled(said: Asked, understand: Reading, guess: Reading) -> M | None:
    bare = said.is_guess and len(sentences(said.text)) == 1
    meaning = guess(f"my guess is {said.text}") if bare else None
    if meaning is None:
        meaning = _line(said.text, understand, guess)
    if meaning is None:  # "Is it a cat? I am sure."
        asking, *remarks = sentences(said.text) or [""]
        silent = asking.endswith("?") and not any(each.endswith("?") or guess(each) is not None for each in remarks)
        meaning = understand(asking) if remarks and silent else None
    return meaning


def _line(text: str, understand: Reading, guess: Reading) -> M | None:
    line = _IN_VIEW_OF.sub("", undecorated(text))
    meaning = _lines([line], understand, guess) if len(sentences(line)) > 1 else None
    return understand(line) if meaning is None else meaning


def _lines(lines: list[str], understand: Reading, guess: Reading) -> M | None:
    said = [sentences(line) for line in lines]
    pieces = [piece for line in said for piece in line]
    asking = [piece for piece in pieces if piece.endswith("?")]
    guesses = [meaning for piece in pieces if piece not in asking and (meaning := guess(piece)) is not None]
    if asking:  # the only one to ask, at the end of its line
        closing = any(line[-1:] == asking for line in said)
        return understand(asking[0]) if closing and not guesses else None
    if guesses:
        return guesses[0] if len(guesses) == 1 else None
    return understand(pieces[-1]) if pieces else None


def gist(text: str) -> str:
    """What of an utterance is compared with others: the question or the guess without label and thoughts."""
    parts = LABELS.parts(text)
    found = labelled(parts)
    if len(found) == 1:
        return found[0].text
    lines = _unlabelled(parts)
    if found or not lines:
        return text
    asking = [line for line in lines if line.endswith("?")]
    return lines[-1] if not asking else asking[0] if len(asking) == 1 else text
