"""Whether two phrases are about the same, as the published reward asks thefuzz 0.19 (without its faster library).

    alike("tea tree oil", "oil of tea tree") -> 100     from 0 to 100; more than 85 is a match
    colour("dark navy stripes")              -> "dark"  an option is known by one colour that it holds

Words are compared as sets: what both have, alone and together with what only one has, in the order of the alphabet; the
best of the three ratios counts. So a phrase whose words are all in the other one is 100.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import combinations

MATCH = 85
_COLOURS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white
wine yellow
"""
COLOURS = _COLOURS.split()
_LATIN = re.compile("[\x80-\xff]")
_NO_WORD = re.compile(r"\W")


def colour(option: str) -> str:
    """The first of the published colours, in their order, that stands anywhere in it, or else the option as it is."""
    return next((each for each in COLOURS if each in option), option)


@lru_cache(maxsize=1 << 16)
def alike(one: str, other: str) -> int:
    first, second = _words(one), _words(other)
    if not first or not second:
        return 0
    both = " ".join(sorted(first & second))
    sides = [f"{both} {' '.join(sorted(rest))}".strip() for rest in (first - second, second - first)]
    return max(_ratio(*pair) for pair in combinations((both, *sides), 2))


def matches(one: str, other: str) -> bool:
    return alike(one, other) > MATCH


def _words(text: str) -> set[str]:
    return set(_NO_WORD.sub(" ", _LATIN.sub("", text)).lower().split())


def _ratio(one: str, other: str) -> int:
    if not one or not other:
        return 0
    return 100 if one == other else round(100 * SequenceMatcher(None, one, other).ratio())
