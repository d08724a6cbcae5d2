"""Reads what the rules of `questions.py` do not: a question as people ask it, whatever words they put around.

    words -> short forms written out -> spelling -> politeness taken away -> comparison | things | open question

A question about things is read if some phrase of the tables is in it and nearly all other words say nothing by
themselves; nothing may turn it round ("not", "except", "other"). Several things at once are fine where they agree.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path

from envs.guess_my_city.atlas import Atlas
from envs.guess_my_city.lore.figures import Figures
from envs.guess_my_city.lore.fillers import COUNTRY, FILLER_WORDS, FILLERS, PAST, PERSONAL, TOP_STEMS, TURNING
from envs.guess_my_city.lore.frames import AUXILIARY, FRAME_WORDS, NEGATIONS, is_open
from envs.guess_my_city.lore.lists import listed, stems_of
from envs.guess_my_city.lore.things import Things
from envs.guess_my_city.lore.unread import HIGHER, is_of_a_life, leaves_out
from envs.guess_my_city.lore.words import stem, stems
from envs.guess_my_city.topics import Meaning
from envs.guess_my_city.wording import key_of, words_of

ASKED = Path(__file__).parent / "asked.toml"
MOST_UNKNOWN = 2
OF_COUNTRY = "@"
GENERAL = (
    "country",
    "region",
    "climate",
    "landmark",
    "fame",
    "nearest_sea",
    "population",
)  # their words go along with others
EITHER, ALL = "|", "&"
WH_STEMS = frozenset(
    map(
        stem, ("what", "which", "where", "when", "who", "whom", "whose", "how", "why", "whereabouts", "before", "first")
    )
)
ADJECTIVES, NO_HEADS = stems_of("adjectives"), stems_of("no_heads")
COMPARATIVES, TERSE = listed("comparatives"), listed("terse")
_AND_WHICH = re.compile(r"\band (?:what|which)(?: one)? (?:is|are) (?:it|they|that)$|\band how far$")
COUNTS = re.compile(r"\bhow (?:many|much|often|long)\b")


@lru_cache(maxsize=1)
def asked() -> dict[str, dict]:
    return tomllib.loads(ASKED.read_text(encoding="utf-8"))


class Reader:
    def __init__(self, atlas: Atlas):
        values = {words for said in atlas.words.values() for words in said if len(words) == 1}
        self.weighty = {stem(words[0]) for words in values} - FILLERS  # "Mediterranean" cannot be passed over
        where = {key: key_of(city.facts["country"][0]) for key, city in atlas.cities.items()}
        named = {words: key for words, key in atlas.words["country"].items()}
        self.things = Things(where, named)
        self.figures = Figures(atlas.cities, named)
        self.figures.add(atlas.names.cities)
        self.asks: dict[tuple[str, ...], str] = {}
        for topic, entry in asked().items():
            for phrase in entry["asks"]:
                self.asks.setdefault(stems(words_of(phrase)), topic)
        self.longest_ask = max(map(len, self.asks))

    def words(self) -> set[str]:
        """All that the tables say, as it is written."""
        phrases = {word for entry in asked().values() for phrase in entry["asks"] for word in words_of(phrase)}
        return self.things.words | phrases | COMPARATIVES | FILLER_WORDS | PERSONAL | FRAME_WORDS

    def read(self, words: tuple[str, ...]) -> Meaning | None:
        """`words`: spelt right and without frames."""
        if not words or PERSONAL.intersection(words):
            return None
        if is_open(words) or _AND_WHICH.search(" ".join(words)):
            return self._open(words)
        if self.is_terse(words) and (meaning := self._terse(words)) is not None:
            return meaning
        return self.figures.read(words) or self._closed(words) or self._terse(words)

    def _closed(self, words: tuple[str, ...]) -> Meaning | None:
        if "what" in words:
            return None
        tokens = stems(words)
        matches = self._matches(tokens)
        free = [at for at in range(len(tokens)) if not any(start <= at < end for start, end, _ in matches)]
        rest = [tokens[at] for at in free]
        if any(word in TURNING or word in NEGATIONS or word[0].isdigit() for word in rest):
            return None
        if self.weighty.intersection(rest) or HIGHER in rest:
            return None
        if leaves_out(words, free):
            return None
        unknown = sum(word not in FILLERS and word not in COUNTRY for word in rest)
        keys = list(dict.fromkeys(key for _, _, key in sorted(matches)))
        allowed = any(end - start > 1 for start, end, _ in matches) + (len(tokens) >= 4)
        if not keys or unknown > min(allowed, MOST_UNKNOWN) or len(keys) > 4:
            return None
        if PAST.intersection(words) and not all(self.things.things[key].lasting for key in keys):
            return None
        if len(keys) > 1 and words[0] not in AUXILIARY and not {"and", "or"}.intersection(rest):
            return None
        of_country = any(tokens[at] in COUNTRY and not self.of_city(tokens, at) for at in free)
        if is_of_a_life(words, [word for at, word in enumerate(tokens) if at not in free], rest, of_country):
            return None
        joined = EITHER if "or" in rest else ALL
        return Meaning("thing", value=joined.join(keys) + (OF_COUNTRY if of_country else ""))

    def _matches(self, tokens: tuple[str, ...]) -> list[tuple[int, int, str]]:
        """Phrases of things that do not overlap, the longest first: (start, end, key)."""
        if "flag" in tokens:
            marks = [(at, at + 1, self.things.phrases.get(("flag", word))) for at, word in enumerate(tokens)]
            flags = [(start, end, key) for start, end, key in marks if key is not None]
            if flags:
                return flags
        found: list[tuple[int, int, str]] = []
        for length in range(min(self.things.longest, len(tokens)), 0, -1):
            for start in range(len(tokens) - length + 1):
                key = self.things.phrases.get(tokens[start : start + length])
                if key is not None and not any(start < end and begin < start + length for begin, end, _ in found):
                    found.append((start, start + length, key))
        return found

    @staticmethod
    def of_city(tokens: tuple[str, ...], at: int) -> bool:
        """ "of its country" speaks of the city, and so does "in its country"."""
        before = tokens[max(0, at - 2) : at]
        return "of" in before or before == ("in", "its")

    def knows(self, word: str) -> bool:
        """Whether the word alone is a thing of the tables."""
        return (stem(word),) in self.things.phrases

    def status(self, value: str, city: str, country: str) -> str:
        of_country = value.endswith(OF_COUNTRY)
        value = value.removesuffix(OF_COUNTRY)
        either = EITHER in value
        said = {self.things.things[key].of(city, country, of_country) for key in value.split(EITHER if either else ALL)}
        if len(said) == 1:
            return said.pop()
        if not either and "no" in said and value.startswith("flag "):
            return "no"
        return "yes" if either and "yes" in said else "maybe"

    def commonly(self, topic: str, value: str, city: str, country: str) -> str:
        """Whether people would say so of the city: yes, maybe or no."""
        if topic == "language":
            key: str | None = f"speak {value}" if f"speak {value}" in self.things.things else None
        else:
            said = stems(value.split())
            key = self.things.phrases.get(said) or self.things.phrases.get(said[1:] if len(said) > 1 else said)
        return self.things.things[key].of(city, country, False) if key else "no"

    def _open(self, words: tuple[str, ...]) -> Meaning | None:
        if COUNTS.search(" ".join(words)) and not re.search(
            r"people|inhabitants|citizens|residents|persons|souls|rain", " ".join(words)
        ):
            return None
        tokens = stems(words)
        spans: list[tuple[int, int, str]] = []
        place = 0
        while place < len(tokens):
            for length in range(min(self.longest_ask, len(tokens) - place), 0, -1):
                topic = self.asks.get(tokens[place : place + length])
                if topic is not None:
                    spans.append((place, place + length, topic))
                    place += length
                    break
            else:
                place += 1
        free = [at for at in range(len(tokens)) if not any(start <= at < end for start, end, _ in spans)]
        rest = [tokens[at] for at in free]
        if (
            not spans
            or self.weighty.intersection(rest)
            or (TURNING - WH_STEMS - TOP_STEMS | NEGATIONS).intersection(rest)
            or any(word[0].isdigit() for word in rest)
        ):
            return None
        covered: dict[str, int] = {}
        for start, end, topic in spans:
            covered[topic] = covered.get(topic, 0) + (end - start) ** 2
        special = {name: share for name, share in covered.items() if name not in GENERAL} or covered
        topic = max(special, key=special.get)
        unknown = sum(word not in FILLERS and word not in COUNTRY for word in rest)
        if unknown > (topic not in GENERAL) or not self._heads(tokens, spans, topic):
            return None
        if topic in ("population", "altitude", "founded") and COUNTRY.intersection(tokens) and "city" not in tokens:
            return Meaning("told inhabitants") if topic == "population" else None
        return Meaning(asked()[topic].get("topic", f"told {topic}"))

    @staticmethod
    def _heads(tokens: tuple[str, ...], spans: list[tuple[int, int, str]], topic: str) -> bool:
        """ "Which king built the palace?" asks for a king: the noun after the question word has to be the topic's."""
        for at, word in enumerate(tokens[:5]):
            if word not in ("what", "which", "whos"):
                continue
            place = at + 1
            while place < len(tokens) and tokens[place] in ADJECTIVES:
                place += 1
            if place == len(tokens) or tokens[place] in NO_HEADS or tokens[place] in COUNTRY:
                return True
            return any(start <= place < end and (name == topic or topic not in GENERAL) for start, end, name in spans)
        return True

    def is_terse(self, words: tuple[str, ...]) -> bool:
        """ "Nearest sea?", "Capital of the country?" ask for something."""
        if not 2 <= len(words) <= 6 or words[0] in AUXILIARY or is_open(words):
            return False
        return bool(TERSE.intersection(words)) or "capital" in words and bool(COUNTRY.intersection(stems(words)))

    def _terse(self, words: tuple[str, ...]) -> Meaning | None:
        return (
            self._open(("what", *words))
            if self.is_terse(words) or len(words) <= 2 and words[0] not in AUXILIARY
            else None
        )
