"""The one who knows the object: answers yes, no or invalid, and nothing else.

An utterance is understood as a whole or not at all. It is either a guess - a plain
opening such as "is it a" and then the full name of one object - or a question: the
keywords of exactly one attribute, with nothing around them but small words. So
"is it smaller than a cat?" is no guess of the cat, "is it not alive?" is no question
about life, and a list of names wins nothing. The answer depends on the object only
through the one attribute or name that was understood; "invalid" never depends on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envs.twenty_questions.table import Table, TableError, read_table, table_path

LONGEST = 400  # characters; anything longer is not one question

GUESS_OPENINGS = (
    "i guess", "i say", "my guess is", "my answer is", "guess", "is it", "it is", "its", "is the object",
    "the object is", "is the answer", "the answer is", "are you thinking of", "are you", "could it be", "i guess it is",
    "i think it is", "i think its", "it must be", "is this",
)  # fmt: skip
ARTICLES = {"a", "an", "the", "some"}
_SMALL = (
    "is it its are they a an the do does did can could would will has have you i one people person humans someone "
    "thing things object something kind type sort of in on at to for with from made make makes use uses used usually "
    "normally often typically generally be being found find fit fits look looks feel feels taste tastes colored "
    "considered called mostly commonly this that"
)
SMALL_WORDS = frozenset(_SMALL.split())


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an utterance asks. Exactly one of the two is set."""

    attribute: str | None = None
    guess: str | None = None


def words_of(text: str) -> tuple[str, ...]:
    """Lower-case words; apostrophes vanish, any other mark separates words."""
    return tuple(re.findall(r"[^\W_]+", text.lower().replace("'", "").replace("\u2019", "")))


class Oracle:
    """Understands utterances about one table. Holds no secret; `answer` is told it."""

    def __init__(self, table: Table):
        self.table = table
        self.names = {words_of(name): name for name in table.names}
        if len(self.names) < len(table.names) or () in self.names:
            raise TableError(f"table {table.source}: two objects have the same words for a name, or one has none")
        self.keywords: dict[tuple[str, ...], str] = {}
        for each in table.attributes:
            for phrase in each.keywords:
                if self.keywords.setdefault(words_of(phrase), each.name) != each.name:
                    other = self.keywords[words_of(phrase)]
                    raise TableError(f"table {table.source}: keyword {phrase!r} means both {other!r} and {each.name!r}")
        self.longest = max(map(len, self.keywords))
        openings = sorted((words_of(opening) for opening in GUESS_OPENINGS), key=len, reverse=True)
        self.openings = tuple(openings)
        self.understand = lru_cache(maxsize=16384)(self._understand)
        for attribute in table.attributes:
            for question in attribute.ask:
                if self.understand(question) != Meaning(attribute=attribute.name):
                    raise TableError(
                        f"table {table.source}: the oracle does not understand {question!r} as {attribute.name!r}; "
                        "its words must be one of the keywords and small words only"
                    )

    def _understand(self, text: str) -> Meaning | None:
        if len(text) > LONGEST:
            return None
        words = words_of(text)
        guess = self._guess(words)
        if guess is not None:
            return Meaning(guess=guess)
        attribute = self._question(words)
        return Meaning(attribute=attribute) if attribute is not None else None

    def _guess(self, words: tuple[str, ...]) -> str | None:
        for opening in self.openings:
            if words[: len(opening)] == opening:
                rest = words[len(opening) :]
                for name in (rest, rest[1:] if rest and rest[0] in ARTICLES else ()):
                    if name in self.names:
                        return self.names[name]
        return None

    def _question(self, words: tuple[str, ...]) -> str | None:
        """The one attribute whose keywords stand among small words; longer phrases first."""
        found: set[str] = set()
        place = 0
        while place < len(words):
            for length in range(min(self.longest, len(words) - place), 0, -1):
                attribute = self.keywords.get(words[place : place + length])
                if attribute is not None:
                    found.add(attribute)
                    place += length
                    break
            else:
                if words[place] not in SMALL_WORDS:
                    return None
                place += 1
        return found.pop() if len(found) == 1 else None

    def answer(self, meaning: Meaning | None, secret: str) -> str:
        if meaning is None:
            return "invalid"
        if meaning.guess is not None:
            return "yes" if meaning.guess == secret else "no"
        return "yes" if meaning.attribute in self.table.objects[secret] else "no"


def oracle_for(table: str) -> Oracle:
    """The oracle of a table, by name or path: made once in a process, and again if the file changes."""
    path = table_path(table)
    return _oracle(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _oracle(path: Path, _modified: int) -> Oracle:
    return Oracle(read_table(path))
