"""The names of cities: when an utterance is a guess of one, and when a sentence gives one away.

A guess is a plain opening such as "is it" and then the whole name of one city and nothing
more, except the country or province that it is in ("paris, france"). So a list of cities,
"is it near paris?" and "is it paris or london?" are no guesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from envs.guess_my_city.wording import word_set, words_of

NOWHERE = "elsewhere"  # stands for any city that the game knows by name but never thinks of

# What may stand before the name, in any order: it says no more than that a guess is coming.
_OPENING = (
    "about looking is it its the city town place your my guess guessing final answer i im ill id think thinking "
    "believe suppose say bet would will could can might may must be that this are you youre of from a am going to "
    "let me lets so then now ok okay well alright right hmm maybe perhaps probably possibly possible sure certain "
    "called name named secret do mean did was were if all we for and solution great has"
)
OPENING = word_set(_OPENING)
# Of these, what may not stand right before it: "is it from paris" asks for something else.
BEFORE_NAME = {
    "from": ("you", "are", "youre"), "of": ("thinking", "city", "town"), "about": ("thinking",),
    "for": ("looking", "searching"), "to": (), "a": (), "and": (), "all": (), "we": (), "if": (), "let": (),
    "did": (), "will": (), "was": (), "were": (), "has": (),
}  # fmt: skip
_LEADS = (
    r"(?:based on|given|considering|from|going by|judging by|with|after) (?:all |everything )*"
    r"(?:the |your |these |those |this |that |what )?"
)
_LEAD_ENDS = (
    r"(?:answers?|clues?|information|hints?|facts|responses?|(?:you|i) (?:have )?(?:said|told me|know|learned|heard))"
)
_QUESTION = r"(?:my |the )?(?:first |next |last |final )?question(?: number)?(?: \d+)?"
LEADS = re.compile(rf"^(?:{_LEADS}{_LEAD_ENDS}(?: so far)?|{_QUESTION}) ")
CLOSINGS = {
    tuple(closing.split())
    for closing in (
        "", "then", "right", "correct", "please", "maybe", "perhaps", "by any chance", "the answer", "the city",
        "your city", "my guess", "the right answer", "my final answer", "the city you are thinking of",
        "the city youre thinking of", "your answer",
    )
}  # fmt: skip
BEFORE_PLACE = {(), ("in",), ("de",), ("the",), ("in", "the"), ("of",)}

# Words that many names have and that tell nobody which.
_COMMON = (
    "a an and the of in on new old great greater big city town port cape saint st san santa santo sao sankt los las "
    "le la el al ad ar de del der das da do dos den di du am im main van von y e en upper lower north south east "
    "west villa ville ciudad metro district republic free royal far senora nuestra reyes"
)
COMMON = word_set(_COMMON)


class NameBook:
    """Every name of every city, for recognising guesses."""

    def __init__(self) -> None:
        self.cities: dict[tuple[str, ...], str] = {}  # words of a name -> key of its city, or NOWHERE
        self.places: dict[str, frozenset[tuple[str, ...]]] = {}  # key -> words of what may follow the name
        self.longest = 0

    def add(self, name: str, city: str) -> str | None:
        """The city that has this name already, if it is another one."""
        words = words_of(name)
        other = self.cities.setdefault(words, city)
        self.longest = max(self.longest, len(words))
        return other if other != city else None

    def guess(self, words: tuple[str, ...]) -> str | None:
        """The one city that the words guess."""
        words = tuple(LEADS.sub("", " ".join(words)).split())
        for place in range(len(words)):
            if place and (words[place - 1] not in OPENING or not self._may_precede(words[:place])):
                if words[place - 1] not in OPENING:
                    return None
                continue
            for length in range(min(self.longest, len(words) - place), 0, -1):
                city = self.cities.get(words[place : place + length])
                if city is not None and self._may_follow(words[place + length :], city):
                    return city
        return None

    def _may_precede(self, words: tuple[str, ...]) -> bool:
        return words[-1] not in BEFORE_NAME or words[-2:-1] != () and words[-2] in BEFORE_NAME[words[-1]]

    def _may_follow(self, words: tuple[str, ...], city: str) -> bool:
        if words in CLOSINGS:
            return True
        return any(
            words[len(words) - len(place) :] == place and words[: len(words) - len(place)] in BEFORE_PLACE
            for place in self.places.get(city, ())
            if len(place) <= len(words)
        )

    def mentioned(self, words: tuple[str, ...]) -> bool:
        """Whether any city is named anywhere in the words."""
        return any(
            words[place : place + length] in self.cities
            for place in range(len(words))
            for length in range(1, min(self.longest, len(words) - place) + 1)
        )


class Giveaway:
    """Finds what would give one city away: a whole name written in any way, a telling word of a
    name, and whatever begins with one ("Parisian", "Mexican")."""

    def __init__(self, names: Iterable[str], further: Iterable[str] = ()):
        exact: set[str] = set()
        stems: set[str] = set()
        whole: set[str] = set()
        for name in names:
            words = words_of(name)
            if len("".join(words)) >= 5:
                whole.add("".join(words))
            telling = [word for word in words if word not in COMMON] or list(words)
            for word in telling:
                (exact if len(word) < 4 else stems).add(word)
        stems.update(word for entry in further for word in words_of(entry))
        parts = [re.escape(word) + r"\b" for word in sorted(exact)]
        parts += [re.escape(word[:-1] if len(word) >= 6 else word) for word in sorted(stems)]
        self._words = re.compile(r"\b(?:" + "|".join(parts) + ")")
        self._whole = tuple(sorted(whole))

    def __call__(self, text: str) -> bool:
        words = words_of(text)
        run_together = "".join(words)
        return bool(self._words.search(" ".join(words))) or any(name in run_together for name in self._whole)
