"""Guesses in the words of people: "do you live in Lima, where the fog is?", "Edinburgh, I presume", "is it mumabi".

    words = a lead that only guesses + the whole name of one city, perhaps misspelt + what may follow it

What follows is nothing, the country, a nickname, or a reason ("with its towers"). Two names are no guess.
"""

from __future__ import annotations

import re

from envs.guess_my_city.atlas import Atlas
from envs.guess_my_city.lore.doubts import OTHERWISE
from envs.guess_my_city.lore.frames import bare, plain
from envs.guess_my_city.lore.lists import listed
from envs.guess_my_city.lore.spelling import Speller
from envs.guess_my_city.names import NOWHERE
from envs.guess_my_city.wording import key_of, words_of

FEWEST = 5  # letters of a word of a name that may be misspelt
_LEAD_WORDS, _TAIL_WORDS, _DOUBT = listed("guess_leads"), listed("guess_tails"), listed("guess_doubts")
_BEFORE_IN, _NEVER_LAST = listed("guess_in"), listed("guess_last")
_NO_GUESS = re.compile(
    r"\b(?:been to|go to|going to go|come to|like to(?! guess| say| propose| put)|want to go|close to|from here|"
    r"is it like|people like|good for|known|know about|what is|what are|is there|are there|see if)\b|"
    r"\b(?:is|are|was) it (?:in|from|of|like|for|about)$|^(?:in|from|like|of|is there)\b|\blocated in$|\bcapital of$|"
    r"\b(?<!no )(?<!a )doubt (?:it|that|if|this|very)\b"
)
_ASIDE = re.compile(
    r"\b(?:(?:how|what) about|going (?:for|with)|go (?:for|with)|goes for|put (?:my |all )?money on|"
    r"money is on|bet on|decided (?:up)?on|sounds like|none other than|"
    r"vote goes for|looking for|searching for|let us say|settle (?:on|for)|think about|"
    r"thinking about|talking about|speaking about|place like)$"
)
_REASON = re.compile(
    r"(?:with|where|because|given|since|by its|by the|for its|judging by|considering|thanks to|"
    r"home of|home to|the one with|as|that|which|near the|on the|the city|the capital|the big|"
    r"the old|city of|land of)\b"
)
MOST_REASON = 10  # words
_AND_OR = re.compile(r"\bor (?!wrong|not$|no$)|^(?:in|not|or|is|to|of)$|^in (?!my)|^to$")


class Guesses:
    def __init__(self, atlas: Atlas, known: set[str]):
        self.names, self.cities = atlas.names, atlas.cities
        words = {word for name in self.names.cities for word in name if len(word) >= FEWEST}
        self.speller = Speller(known | {word for name in self.names.cities for word in name}, meant=words)
        self.places = {words for topic in ("country", "province", "continent") for words in atlas.words.get(topic, ())}
        self.nations: dict[str, set[str]] = {}
        for said, country in atlas.words["country"].items():
            self.nations.setdefault(country, set()).add(" ".join(said))

    def read(self, words: tuple[str, ...]) -> str | None:
        """The key of the one city that is guessed, or NOWHERE for a city of no table."""
        found = self._found(words)
        if found is None and (spelt := self.speller.words(words)) != words:
            found = self._found(spelt)
        return found

    def before_aside(self, text: str) -> str | None:
        """ "You are in Marrakesh, among the palms!": a whole guess, and after the comma nothing that could be one."""
        said, _, aside = text.partition(",")
        after, words = words_of(aside), plain(words_of(said))
        if len(words) < 2 or not after or OTHERWISE.intersection(after) or self._place_in(after):
            return None
        city = self.names.guess(words)
        return city if city is not None else self.read(bare(words))

    def _place_in(self, words: tuple[str, ...]) -> bool:
        """Whether another place may be meant: "Paris, Texas"."""
        parts = (words[at : at + length] for at in range(len(words)) for length in (1, 2, 3))
        return self.names.mentioned(words) or any(part in self.places for part in parts)

    def _found(self, words: tuple[str, ...]) -> str | None:
        hits = []
        place = 0
        while place < len(words):
            for length in range(min(self.names.longest, len(words) - place), 0, -1):
                if words[place : place + length] in self.names.cities:
                    hits.append((place, length))
                    place += length - 1
                    break
            place += 1
        if len(hits) != 1:
            return None
        place, length = hits[0]
        city = self.names.cities[words[place : place + length]]
        before, after = words[:place], words[place + length :]
        if self._leads(before, city) and self._follows(after, city):
            return city
        return None

    def _leads(self, words: tuple[str, ...], city: str) -> bool:
        if not words:
            return True
        nation = {word for said in self.nations.get(self._nation(city), ()) for word in said.split()}
        said, last, before = " ".join(words), words[-1], words[-2:-1]
        if not all(word in _LEAD_WORDS or word in nation for word in words) or _NO_GUESS.search(said):
            return False
        if last == "in":
            return before != () and before[0] in _BEFORE_IN and "capital" not in words
        if last == "from":
            return "you" in words or "are" in words
        if last == "of":
            return before in (
                ("city",),
                ("town",),
                ("thinking",),
                ("citizen",),
                ("resident",),
                ("native",),
                ("speaking",),
                ("talking",),
            )
        if last == "to":
            return before in (("points",), ("point",), ("lead",), ("leads",), ("goes",))
        if last in ("how", "what", "about", "for", "like", "upon", "on", "with", "than", "see", "people"):
            return _ASIDE.search(said) is not None
        return last not in _NEVER_LAST

    def _nation(self, city: str) -> str:
        return key_of(self.cities[city].facts["country"][0]) if city in self.cities else ""

    def _follows(self, words: tuple[str, ...], city: str) -> bool:
        if not words:
            return True
        said = " ".join(words)
        if _REASON.match(said) and len(words) <= MOST_REASON:
            return not _DOUBT.intersection(words)
        own = {word for nation in self.nations.get(self._nation(city), ()) for word in nation.split()}
        if city != NOWHERE:
            facts = self.cities[city].facts
            own |= {word for value in (*facts["nickname"], *facts["province"]) for word in words_of(value)}
        return all(word in own or word in _TAIL_WORDS for word in words) and not _AND_OR.search(said)
