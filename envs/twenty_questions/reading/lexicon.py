"""Which facts the words of a question stand for.

A phrase is known by its words, else by their stems; articles and words such as "usually" may stand anywhere in it, and
"it" may be left out of it ("plug it in", "plugged in"). Of all ways to read a question the one is taken that
leaves the fewest words unknown, then the fewest small words outside of phrases, then the one with the fewest phrases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from envs.twenty_questions.knowledge import Fact
from envs.twenty_questions.meaning import words_of
from envs.twenty_questions.reading.stems import stem

ASKING = {(verb, who) for verb in ("do", "can", "could", "would") for who in ("you", "people", "i")}
Meant = tuple[str, bool]  # the name of a fact, and whether the contrary is meant
MANNER = ("ally", "ously", "ently", "ately", "ively", "antly", "ingly", "fully")  # such words say little
UNANSWERABLE: Meant = ("", False)


class Span(NamedTuple):
    meant: Meant
    start: int
    end: int


class Cover(NamedTuple):
    spans: tuple[Span, ...]
    rest: tuple[int, ...]  # places of words that nothing explains
    words: tuple[str, ...]  # without fillers
    skipped: tuple[int, ...]  # places of phrases that say nothing

    @property
    def found(self) -> list[Meant]:
        """In the order of the question, each once."""
        return list(dict.fromkeys(span.meant for span in self.spans))

    def unknown(self) -> list[str]:
        return [self.words[place] for place in self.rest]


class Lexicon:
    def __init__(
        self,
        facts: Iterable[Fact],
        beyond: Iterable[str],
        small: frozenset[str],
        fillers: frozenset[str],
        ignored: frozenset[tuple[str, ...]],
    ):
        self.small, self.fillers, self.ignored = small, fillers, ignored
        self.exact: dict[tuple[str, ...], Meant] = {self.bare(words_of(phrase)): UNANSWERABLE for phrase in beyond}
        for fact in facts:
            for contrary, listed in ((False, fact.words), (True, fact.opposites)):
                for phrase in listed:
                    key = self.bare(words_of(phrase))
                    if key[:2] in ASKING and len(key) > 2:
                        key = key[2:]
                    if phrase.startswith("!") or self.exact.get(key, UNANSWERABLE) == UNANSWERABLE:
                        self.exact[key] = (fact.name, contrary)
        for nothing in ((), ("it",)):
            self.exact.pop(nothing, None)
        self.stems: dict[tuple[str, ...], Meant] = {}  # of two phrases with the same stems the shorter one counts
        for key, meant in sorted(self.exact.items(), key=lambda item: sum(map(len, item[0]))):
            if key[0] != "it" or len(key) == 1:  # "it eats" is not "it is eaten"
                self.stems.setdefault(tuple(map(stem, key)), meant)
        self.span = max(map(len, self.exact)) + 1
        self.starts = {key[0] for key in self.stems} | {stem(key[0]) for key in self.exact}
        self.small_stems = frozenset(map(stem, small))
        self.words = {word for key in self.exact for word in key}

    def bare(self, words: Iterable[str]) -> tuple[str, ...]:
        return tuple(word for word in words if word not in self.fillers)

    def meant(self, words: tuple[str, ...]) -> tuple[Meant | None, bool]:
        """What a phrase stands for, and whether only its stems say so."""
        if words in self.exact:
            return self.exact[words], False
        return self.stems.get(tuple(map(stem, words))), True

    def word(self, word: str) -> Meant:
        """What a single word stands for; "nonmetallic" is the contrary of "metallic"."""
        meant, _ = self.meant((word,))
        if meant is None and word.startswith("non") and (other := self.meant((word[3:],))[0]) is not None:
            meant = (other[0], not other[1])
        return meant or UNANSWERABLE

    def cover(self, words: Iterable[str]) -> Cover:
        bare = self.bare(words)
        stems = [stem(word) for word in bare]
        best: list[tuple[tuple[int, int, int, int], tuple, tuple, tuple]] = [((0, 0, 0, 0), (), (), ())]
        options: list[list] = [[] for _ in range(len(bare) + 1)]
        for start, word in enumerate(bare):
            (unknown, small, count, rough), spans, rest, skipped = best[start]
            for end, meant, stemmed in self._phrases_from(bare, stems, start):
                cost = (unknown, small, count + 1, rough + stemmed)
                options[end].append((cost, (*spans, Span(meant, start, end)), rest, skipped))
            for length in range(1, min(self.span, len(bare) - start) + 1):
                if bare[start : start + length] in self.ignored:
                    ignored = (*skipped, *range(start, start + length))
                    options[start + length].append(((unknown, small, count, rough), spans, rest, ignored))
            if word in self.small or stems[start] in self.small_stems or word.endswith(MANNER):
                options[start + 1].append(((unknown, small + 1, count, rough), spans, rest, skipped))
            else:
                options[start + 1].append(((unknown + 1, small, count, rough), spans, (*rest, start), skipped))
            best.append(min(options[start + 1], key=lambda option: option[0]))
        _, spans, rest, skipped = best[-1]
        return Cover(spans, rest, bare, skipped)

    def _phrases_from(self, bare: tuple[str, ...], stems: list[str], start: int) -> Iterable[tuple[int, Meant, bool]]:
        if stems[start] not in self.starts:
            word = bare[start]
            if word.startswith("non") and (meant := self.word(word)) != UNANSWERABLE:
                yield start + 1, meant, True
            return
        for end in range(start + 1, min(start + self.span, len(bare)) + 1):
            words = bare[start:end]
            meant, stemmed = self.meant(words)
            if meant is None and "it" in words[1:-1]:
                meant, stemmed = self.meant(tuple(word for word in words if word != "it"))
            if meant is not None and not (stemmed and end == start + 1 and words[0] in self.small):
                yield end, meant, stemmed
