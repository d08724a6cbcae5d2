"""The one who knows the object: answers yes, no or invalid, and nothing else.

An utterance is understood as a whole or not at all. It is either a guess - a plain
opening such as "is it a" and then the full name of one object - or a question: the
keywords of exactly one attribute, with nothing around them but small words. So
"is it smaller than a cat?" is no guess of the cat, "is it not alive?" is no question
about life, and a list of names wins nothing. The answer depends on the object only
through what was understood; "invalid" depends on it only where people would argue about a fact of it.

    plain      the rules above
    free       these and everyday phrasings, comparisons of size, all facts of the table (`reading.free`)
    nearest    these, and what they do not read by the nearest of many known questions (`reading.nearest`)
    endpoint   guesses by the rules, questions by an OpenAI-compatible server (`endpoint`)
"""

from __future__ import annotations

from functools import lru_cache

from envs.text import guessing
from envs.twenty_questions.facts import TableError
from envs.twenty_questions.meaning import SMALL_WORDS, Comparison, Meaning, words_of
from envs.twenty_questions.table import Table

LONGEST = 400  # characters; anything longer is not one question

EXPLICIT_OPENINGS = (
    "i guess", "i say", "my guess is", "my answer is", "guess", "is the answer", "the answer is", "are you thinking of",
    "i guess it is", "i think it is", "i think its", "it must be", "my final guess is", "my final answer is",
)  # fmt: skip
GUESS_OPENINGS = (
    *EXPLICIT_OPENINGS, "is it", "it is", "its", "is the object", "the object is", "are you", "could it be", "is this",
)  # fmt: skip
ARTICLES = {"a", "an", "the", "some"}


ANSWERS = {"yes": "yes", "some": "yes", "no": "no", "open": "invalid"}
CONTRARY = {"yes": "no", "no": "yes", "some": "some", "open": "open"}


def all_of(truths: list[str]) -> str:
    if truths.count("some") > 1 and "no" not in truths:
        return "open"
    return next((each for each in ("no", "open", "some") if each in truths), "yes")


def any_of(truths: list[str]) -> str:
    return next((each for each in ("yes", "some", "open") if each in truths), "no")


def agreed(truths: list[str]) -> str:
    """What all say; what is only sometimes true agrees with what is true."""
    if set(truths) == {"no"}:
        return "no"
    return "open" if {"no", "open"} & set(truths) else "yes"


def of_a_part(truths: list[str]) -> str:
    """Without the part no; with it, what is true of the whole is taken to be true of the part, and nothing else is."""
    if truths[-1] in ("no", "open"):
        return truths[-1]
    return "yes" if set(truths) == {"yes"} else "open"


HOW = {"all": all_of, "any": any_of, "agree": agreed, "part": of_a_part}


class Oracle:
    """Understands utterances about one table. Holds no secret; `answer` is told it."""

    slow = False  # whether `answer` may wait for a server

    def __init__(self, table: Table):
        self.table = table
        self.names = {words_of(name): name for name in table.names}
        if len(self.names) < len(table.names) or () in self.names:
            raise TableError(f"table {table.source}: two objects have the same words for a name, or one has none")
        for other, name in table.also.items():
            if self.names.setdefault(words_of(other), name) != name:
                raise TableError(
                    f"table {table.source}: {other!r} names both {self.names[words_of(other)]!r} and {name!r}"
                )
        self.keywords: dict[tuple[str, ...], str] = {}
        for each in table.attributes:
            for phrase in each.keywords:
                if self.keywords.setdefault(words_of(phrase), each.name) != each.name:
                    other = self.keywords[words_of(phrase)]
                    raise TableError(f"table {table.source}: keyword {phrase!r} means both {other!r} and {each.name!r}")
        self.longest = max(map(len, self.keywords))
        self.truths: dict[str, dict[str, str]] = {}  # fact -> object -> how true it is; filled when it is asked for
        openings = sorted((words_of(opening) for opening in GUESS_OPENINGS), key=len, reverse=True)
        self.openings = tuple(openings)
        self.explicit = {words_of(opening) for opening in EXPLICIT_OPENINGS}
        self._cached = lru_cache(maxsize=16384)(self._understand)
        self._heard = lru_cache(maxsize=16384)(self._read)
        for attribute in table.attributes:
            for question in attribute.ask:
                if self.read_plainly(question) != Meaning(attribute=attribute.name):
                    raise TableError(
                        f"table {table.source}: the oracle does not understand {question!r} as {attribute.name!r}; "
                        "its words must be one of the keywords and small words only"
                    )

    def understand(self, text: str) -> Meaning | None:
        """What is said in a turn, in whatever form models put it."""
        return self._heard(text) if len(text) <= LONGEST else self._read(text)

    def _read(self, text: str) -> Meaning | None:
        return guessing.read(text, self._one, self._one_guess)

    def _one(self, text: str) -> Meaning | None:
        """What a single question or guess means."""
        return self._cached(text) if len(text) <= LONGEST else None

    def _one_guess(self, text: str) -> Meaning | None:
        name = self.guess(text) if len(text) <= LONGEST else None
        return Meaning(guess=name) if name is not None else None

    def guess(self, text: str) -> str | None:
        """The object that a single guess names; None if the text is none."""
        return self._guess(words_of(text))

    def _understand(self, text: str) -> Meaning | None:
        return self.read_plainly(text)

    def read_plainly(self, text: str) -> Meaning | None:
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
                if rest in self.names and (rest not in self.keywords or opening in self.explicit):
                    return self.names[rest]  # "is it orange?" asks for the colour
                if rest and rest[0] in ARTICLES and rest[1:] in self.names:
                    return self.names[rest[1:]]
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
        """What is sometimes true gets a yes, and so does its contrary."""
        if meaning is None:
            return "invalid"
        if meaning.guess is not None and (meaning.kind is None or meaning.guess == secret):
            right = meaning.guess == secret
        elif meaning.guess is not None:
            return ANSWERS[self._fact(meaning.kind, False, secret)]  # a polar bear is a bear, and not the bear
        elif meaning.comparison is not None:
            right = self._compare(meaning.comparison, secret)
        else:
            return ANSWERS[self._truth(meaning, secret)]
        return "yes" if right else "no"

    def _truth(self, meaning: Meaning, secret: str) -> str:
        if meaning.claim is None:
            truth = self._fact(meaning.attribute, meaning.negated, secret)
            if meaning.kind is None:
                return truth
            return all_of([self._fact(meaning.kind, False, secret), truth])
        truths = [self._fact(name, contrary, secret) for name, contrary in meaning.claim.facts]
        truth = HOW[meaning.claim.how](truths)
        return truth if meaning.claim.known or truth == "no" else "open"

    def _fact(self, name: str, contrary: bool, secret: str) -> str:
        truths = self.truths.get(name)
        if truths is None:
            fact = self.table.facts[name]
            truths = self.truths[name] = {secret: fact.truth(1 << at) for at, secret in enumerate(self.table.names)}
        return CONTRARY[truths[secret]] if contrary else truths[secret]

    def _compare(self, comparison: Comparison, secret: str) -> bool:
        size = self.table.measures[secret][("cm", "kg").index(comparison.unit)]
        return size > comparison.value if comparison.more else size < comparison.value
