"""Wordle as in LMRL-Gym: find the word of five letters in six tries.

Each try is one word of the list. The answer has a mark for each of its letters: `g` if the word has that letter
in this place, `y` if it has the letter elsewhere, `b` if not at all. A letter that is said twice is marked twice
by that rule, however often the word has it; the newspaper game counts. What is no word of the list costs a try.
Reward and outcome are 1 for the word, else 0. The published reward is -1 for each try and 0 for the one that
finds the word, so its return is minus the number of the other tries, not discounted.

A file of words may be one of those that LMRL-Gym ships (wordle_official_400.txt); lines of another length are left out.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from math import log
from pathlib import Path
from typing import Annotated, Any

from envs.game import OVER, Game, Player, Step, Trial
from envs.options import whole_number
from envs.text.answer import THOUGHT, Labels, undecorated, unlabelled

SEAT = "guesser"
LETTERS = 5
MOST_WORDS = 20_000
JUNK = ("hello there", "i do not know", "zzzzz")
NO_WORD = "no such word"
STATE = ("secret", "tried", "won", "seen")

_LABELS = Labels(guess="guess|word|action|move|try", answer="answer|response|output|solution")
_LEAD = re.compile(r"(?:my (?:next |first |final )?guess is|i guess|i(?: wi)?ll (?:try|guess|say)|is it|try)[: ]+")
_SPACED = re.compile(r"[a-z](?: [a-z]){4}")


@lru_cache(maxsize=8)
def words_of(source: str) -> tuple[str, ...]:
    if source == "common":
        path = Path(__file__).with_name("words.toml")
        return tuple(tomllib.loads(path.read_text(encoding="utf-8"))["words"].split())
    try:
        lines = Path(source).expanduser().read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"game option words={source[-100:]!r} is neither 'common' nor a file of words: {error}"
        ) from None
    found = tuple(dict.fromkeys(line.strip() for line in lines if re.fullmatch("[a-z]{5}", line.strip())))
    if not 2 <= len(found) <= MOST_WORDS:
        raise ValueError(
            f"game option words={source[-100:]!r}: it has {len(found)} words of five letters a-z, not 2 to 20,000"
        )
    return found


def marks(guess: str, secret: str) -> str:
    return " ".join("g" if a == b else "y" if a in secret else "b" for a, b in zip(guess, secret, strict=True))


def word_in(utterance: str) -> str | None:
    """The word that is said: alone, spelled out, after a label, or in the line that says it."""
    parts = _LABELS.parts(utterance)
    said = {part.first for part in parts[1:] if part.kind != THOUGHT and part.first}
    if not said:
        said = {line for paragraph in unlabelled(parts) for line in paragraph}
    found = {word for line in said if (word := _word(line))}
    return found.pop() if len(found) == 1 else None


def _word(line: str) -> str | None:
    line = undecorated(line).lower().strip(" .!?")
    line = undecorated(_LEAD.sub("", line, count=1)) if _LEAD.match(line) else line
    line = line.replace(" ", "") if _SPACED.fullmatch(line) else line
    return line if re.fullmatch("[a-z]{5}", line) else None


class Wordle(Game):
    seats = (SEAT,)

    def __init__(
        self,
        words: Annotated[
            str, "common: words of our own choosing; or the path of a file with one word in each line"
        ] = "common",
        tries: Annotated[int, "1 to 99"] = 6,
    ):
        if not isinstance(words, str) or not words:
            raise ValueError(f"game option words={words!r} must be 'common' or the path of a file")
        self.words = words_of(words)
        self.horizon = whole_number("tries", tries, 1, 99)
        self._known = frozenset(self.words)
        self._secret: str | None = None

    def reset(self, seed: int) -> None:
        self._secret = random.Random(f"secret {seed}").choice(self.words)
        self._tried, self._won, self._seen = 0, False, "which word?"

    @property
    def seat(self) -> str | None:
        return None if self._secret is None or self._won or self._tried >= self.horizon else SEAT

    def briefing(self, seat: str) -> str:
        return (
            f"I think of an English word of five letters. You have {self.horizon} tries to find it. In each try, say "
            "one word of five letters and nothing else. I answer with a mark for each of its letters: g if my word has "
            "that letter in that place, y if it has it in another place, b if it does not have it. A word that I do "
            "not know costs a try."
        )

    def observe(self) -> str:
        return self._seen

    def step(self, utterance: str) -> Step:
        if self.seat is None:
            raise RuntimeError(OVER)
        word = word_in(utterance)
        known = word in self._known
        self._tried += 1
        self._won = word == self._secret
        self._seen = marks(word, self._secret) if known else NO_WORD
        said = f"the guesser tries {word}: {self._seen}" if known else "the guesser says no word that is known"
        return Step({SEAT: 1.0} if self._won else {}, executable=known, terminated=self.seat is None, caption=said)

    def outcome(self) -> dict[str, float]:
        return {SEAT: float(self._secret is not None and self._won)}

    def closing(self) -> dict[str, str]:
        return {SEAT: self._seen} if self.seat is None and self._secret is not None else {}

    def facts(self) -> dict[str, str]:
        return {"secret": self._secret} if self.seat is None and self._secret is not None else {}

    def answers(self) -> dict[str, str]:
        return {SEAT: self._secret} if self.facts() else {}

    def save(self) -> dict[str, Any]:
        return {} if self._secret is None else {name: getattr(self, f"_{name}") for name in STATE}

    def restore(self, saved: dict[str, Any]) -> None:
        self._secret = None
        for name, value in saved.items():
            setattr(self, f"_{name}", value)

    def language(self) -> Iterable[str]:
        yield from (*self.words, *JUNK, "which word?", NO_WORD, "g y b")

    @classmethod
    def gist(cls, utterance: str) -> str:
        return word_in(utterance) or utterance

    @classmethod
    def players(cls) -> dict[str, type[Player]]:
        return {"expert": Expert, "mediocre": Mediocre, "random": Random}

    @classmethod
    def trials(cls) -> list[Trial]:
        return [Trial("wordle", episodes=400)]


class Guesser:
    """Keeps the words that fit all marks."""

    def __init__(self, words: str = "common", tries: int = 6):
        self.source = words
        self.words = words_of(words)

    def reset(self, seed: int) -> None:
        self.random = random.Random(f"guesser {seed}")
        self.left, self.said = self.words, ""

    def reply(self, observation: str, actions: tuple[str, ...]) -> str:
        if self.said and observation != NO_WORD:
            self.left = tuple(word for word in self.left if marks(self.said, word) == observation) or self.words
        said = self.choose()
        self.said = said if said in self.words else ""
        return said

    def choose(self) -> str:
        raise NotImplementedError


class Expert(Guesser):
    """Says the word, of those that fit, whose marks tell most about the others. Finds every word, in 3.0 tries."""

    def choose(self) -> str:
        return _telling(self.left)


@lru_cache(maxsize=4096)
def _telling(left: tuple[str, ...]) -> str:
    def expected(guess: str) -> float:
        """The logarithm of how many words are left, on average."""
        return sum(count * log(count) for count in Counter(marks(guess, word) for word in left).values())

    return min(left, key=expected)


class Mediocre(Guesser):
    """Says a word that fits in one try of five, else any, and nonsense in one of twenty. Finds 41 %."""

    def choose(self) -> str:
        chance = self.random.random()
        if chance < 0.05:
            return self.random.choice(JUNK)
        return self.random.choice(self.left if chance < 0.25 else self.words)


class Random(Guesser):
    """Says any word of the list: finds 1 %."""

    def choose(self) -> str:
        return self.random.choice(self.words)
