"""The stem of a word: what its forms have in common. Rough, and the same for both sides of a comparison.

stem("cities") == stem("city"), stem("swam") == stem("swimming"), stem("making") == stem("makes")
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path

_FORMS = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))["forms"]
_IRREGULAR = {
    form: word.strip() for entry in _FORMS.split("|") for word, forms in [entry.split(":")] for form in forms.split()
}
VARIANTS = {
    "colour": "color", "colours": "colors", "coloured": "colored", "colourful": "colorful", "grey": "gray",
    "tyre": "tire", "tyres": "tires", "metre": "meter", "metres": "meters", "jewellery": "jewelry",
    "aluminium": "aluminum", "aeroplane": "airplane", "licence": "license", "centre": "center", "fibre": "fiber",
    "mould": "mold", "moustache": "mustache", "pyjamas": "pajamas", "plough": "plow", "armour": "armor",
    "odour": "odor", "flavour": "flavor", "harbour": "harbor", "neighbour": "neighbor", "theatre": "theater",
    "organise": "organize", "recognise": "recognize", "motorised": "motorized", "carnivor": "carnivore",
    "domesticate": "domesticated", "cosy": "cozy", "catalogue": "catalog", "programme": "program",
}  # fmt: skip
_VOWEL = re.compile(r"[aeiouy]")
_SHORT = re.compile(r"[^aeiou][aeiou][^aeiouwxy]")  # "mak" was "make"


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    word = VARIANTS.get(word, word)
    word = _IRREGULAR.get(word, word)
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) > 2 and _VOWEL.search(base):
            if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz":
                return base[:-1]
            word = base + "e" if _SHORT.fullmatch(base) else base
            break
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    if word.endswith("e") and len(word) > 4:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 and word[-2] not in "aeiou" else word
