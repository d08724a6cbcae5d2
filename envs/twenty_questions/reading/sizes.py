"""Comparisons of size and weight: with any well-known thing, or with a number and a unit.

    bigger than a breadbox, more big as a car, weigh over ten pounds, less than 10 cm long, exceed a car in size

Objects of the same size are neither bigger nor smaller. "As big as" lets a quarter be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from envs.twenty_questions.meaning import Comparison
from envs.twenty_questions.reading import phrases

_MORE = "bigger|larger|taller|longer|heavier|higher|wider|greater|broader|deeper|huger"
_LESS = "smaller|shorter|lighter|tinier|lower|littler|narrower|lesser"
_ADJECTIVES = {
    "big": "bigger", "large": "larger", "tall": "taller", "long": "longer", "heavy": "heavier", "high": "higher",
    "wide": "wider", "small": "smaller", "tiny": "smaller", "little": "smaller", "short": "shorter", "light": "lighter",
}  # fmt: skip
_ADJECTIVE = "|".join(_ADJECTIVES)
_REWRITES = [
    (re.compile(rf"\b({_ADJECTIVE}) (?:more|over|above) than\b"), lambda m: f"{_ADJECTIVES[m[1]]} than"),
    (re.compile(rf"\bmore ({_ADJECTIVE})\b"), lambda m: _ADJECTIVES[m[1]]),
    (re.compile(rf"\bless (?:{_ADJECTIVE})\b"), lambda m: _CONTRARY[m[0].split()[1]]),
    (re.compile(rf"\b({_MORE}|{_LESS}) (?:then|as|to|that|compared (?:to|with))\b"), lambda m: f"{m[1]} than"),
    (re.compile(r"\b(?:exceeds?|surpass(?:es)?) (?:in (size|weight|length|height) )?"), lambda m: _exceeding(m[1])),
    (re.compile(r"\bin excess of\b"), lambda m: "more than"),
    (re.compile(r"\boutweighs?\b"), lambda m: "weigh more than"),
    (re.compile(r"\bgreater (?:in )?(?:mass|weight) than\b"), lambda m: "heavier than"),
    (re.compile(r"\b(?:over|above|greater than|at least|upwards of|no less than|beyond)(?= (?:\d|[a-z]+ [a-z]+))"),
     lambda m: "more than"),
    (re.compile(r"\b(?:under|below|fewer than|at most|no more than|up to)(?= (?:\d|[a-z]+ [a-z]+))"),
     lambda m: "less than"),
    (re.compile(rf"\b(?:as|so) ({_ADJECTIVE}) (?:as|like)\b"), lambda m: f"as {_ADJECTIVES[m[1]]} than"),
    (re.compile(r"\bweighs? as much as\b"), lambda m: "weigh as more than"),
]  # fmt: skip
_CONTRARY = {
    "big": "smaller", "large": "smaller", "tall": "shorter", "long": "shorter", "heavy": "lighter", "high": "shorter",
    "wide": "smaller", "small": "bigger", "tiny": "bigger", "little": "bigger", "short": "longer", "light": "heavier",
}  # fmt: skip
_TAIL = (
    r"(?: is| does| do| are| would| weighs?| in (?:size|weight|length|height|total)| tall| long| high| wide| or so| now"
    r"| when (?:fully )?grown| in general| is in size| by weight| by size| size| overall)*$"
)
_COMPARED = re.compile(
    rf"\b(?P<as>as )?(?P<how>{_MORE}|{_LESS})(?: in (?:size|weight|length|height|mass|volume))?"
    rf" than (?P<than>.+?){_TAIL}"
)
_WEIGHED = re.compile(
    r"\b(?:weigh(?:s|ing)?|its weight|weight(?: of it)?(?: is)?) (?P<as>as )?(?P<how>more|less)"
    rf" than (?P<than>.+?){_TAIL}"
)
_AMOUNT = r"(?P<number>\d+(?:\.\d+)?|(?:[a-z]+ ){0,2}[a-z]+?) (?P<unit>%s)\b"
NUMBERS = {
    "a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0,
    "eight": 8.0, "nine": 9.0, "ten": 10.0, "twelve": 12.0, "fifteen": 15.0, "twenty": 20.0, "thirty": 30.0,
    "forty": 40.0, "fifty": 50.0, "sixty": 60.0, "hundred": 100.0, "thousand": 1000.0, "half": 0.5, "couple": 2.0,
    "few": 3.0, "dozen": 12.0, "million": 1e6,
}  # fmt: skip
UNITS_OF = {
    **dict.fromkeys(("mm", "millimeter", "millimeters", "millimetre", "millimetres"), ("cm", 0.1)),
    **dict.fromkeys(("cm", "cms", "centimeter", "centimeters", "centimetre", "centimetres"), ("cm", 1.0)),
    **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), ("cm", 100.0)),
    **dict.fromkeys(("km", "kilometer", "kilometers", "kilometre", "kilometres"), ("cm", 100_000.0)),
    **dict.fromkeys(("mile", "miles"), ("cm", 160_934.0)),
    **dict.fromkeys(("inch", "inches"), ("cm", 2.54)),
    **dict.fromkeys(("foot", "feet", "ft"), ("cm", 30.48)),
    **dict.fromkeys(("yard", "yards"), ("cm", 91.44)),
    **dict.fromkeys(("g", "gram", "grams", "gramme", "grammes"), ("kg", 0.001)),
    **dict.fromkeys(("kg", "kgs", "kilo", "kilos", "kilogram", "kilograms"), ("kg", 1.0)),
    **dict.fromkeys(("ounce", "ounces", "oz"), ("kg", 0.02835)),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds"), ("kg", 0.4536)),
    **dict.fromkeys(("ton", "tons", "tonne", "tonnes"), ("kg", 1000.0)),
}
_MEASURED = re.compile(
    rf"\b(?P<as>as )?(?P<how>{_MORE}|{_LESS}|more|less) than "
    + _AMOUNT % "|".join(sorted(UNITS_OF, key=len, reverse=True))
    + _TAIL
)
MORE = frozenset(_MORE.split("|")) | {"more"}
HEAVIER = frozenset(("heavier", "lighter"))


def _exceeding(how: str | None) -> str:
    return "heavier than " if how == "weight" else "bigger than "


class Sizes:
    def __init__(self, measures: dict[tuple[str, ...], tuple[float, float]], is_small: Callable[[str], bool]):
        self.measures, self.is_small = measures, is_small

    def comparison(self, core: str) -> Comparison | None:
        for pattern, to in _REWRITES:
            core = pattern.sub(to, core)
        if match := _MEASURED.search(core):
            number, unit = _number(match["number"]), UNITS_OF[match["unit"]]
            if number is not None and self._only_small(core[: match.start()]):
                return self._compared(match, unit[0], number * unit[1])
        for pattern in (_COMPARED, _WEIGHED):
            match = pattern.search(core)
            if match is None or not self._only_small(core[: match.start()]):
                continue
            if match["how"] == "longer" and phrases.LASTING.search(core):
                return None  # of time
            sizes = self.sizes(match["than"].split())
            if sizes is not None:
                heavy = pattern is _WEIGHED or match["how"] in HEAVIER or " in weight" in match[0]
                return self._compared(match, "kg" if heavy else "cm", sizes[heavy])
        return None

    def sizes(self, words: list[str]) -> tuple[float, float] | None:
        """Of a thing, with the words before it that change little."""
        for start in range(len(words)):
            if (found := self.measures.get(tuple(words[start:]))) is not None:
                return found
            if words[start] not in phrases.BEFORE_A_THING:
                return None
        return None

    def _compared(self, match: re.Match, unit: str, value: float) -> Comparison:
        more = match["how"] in MORE
        share = 1.0 if not match["as"] else 0.75 if more else 1.3
        words = match[0].replace(" than", "", 1) if match["as"] else match[0]
        return Comparison(more, unit, value * share, words)

    def _only_small(self, text: str) -> bool:
        return all(self.is_small(word) or word in phrases.OF_SIZES for word in text.split())


def _number(text: str) -> float | None:
    """ "2.5", "twenty five", "a hundred", "half a", "a couple of"."""
    try:
        return float(text)
    except ValueError:
        pass
    value = 0.0
    for word in text.split():
        if word in ("of", "and"):
            continue
        if word not in NUMBERS:
            return None
        number = NUMBERS[word]
        if word in ("a", "an"):
            value = value or 1.0
        elif number >= 100 or number == 0.5 or word in ("dozen",):
            value = (value or 1.0) * number
        else:
            value = number if value == 1.0 and number < 10 else value + number
    return value or None
