"""A text as the words by which it is judged: case, punctuation and the way it is set do not count.

    "It is **Paris**!"           it is paris
    "so x - 2, or x-2"           so x - 2 or x - 2      a symbol is a word of its own
    "-5 or $0.5, in C++"         -5 or 0.5 in c++       but a sign stays with what it belongs to

So a label is in a text if its words are there, one after the other, and -5 is not 5. In scripts that part no words
each character is one. Dollars only set formulas off, like brackets.
"""

from __future__ import annotations

import re
import unicodedata


def _of(categories: str) -> str:
    """All characters of the first plane whose category begins so, for a class of a pattern."""
    found = (char for char in map(chr, range(0x10000)) if unicodedata.category(char).startswith(categories))
    return "".join(map(re.escape, found))


MARKS = _of("M")
SYMBOLS = rf"(?![$`])[{_of('S')}\U0001f000-\U0001faff/%#&@-]"
# Thai and Lao, Burmese, Khmer, kana, Han; Korean has spaces, and endings on its words
LOOSE = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7a3\U00020000-\U0003ffff"
)
LETTERS = rf"[^\W{LOOSE}]+(?:[{MARKS}]+[^\W{LOOSE}]*)*"
SIGN = r"(?<![\w)\]}-])[-\u221a\u00b1](?:\\|(?=\.?\d|[^\W_]\b))"  # of a number, a variable, a command of TeX
WORD = re.compile(
    rf"(?:{SIGN})?(?:(?<!\.)\.(?=\d))?{LETTERS}(?:[.,']{LETTERS})*(?:[+#]++(?!\w))?"
    rf"|(?=\w)[{LOOSE}][{MARKS}]*"
    rf"|{SYMBOLS}|(?<=\w)\*+(?=\w)|(?<=\s)\*(?=\s)"
)
INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff]")
RAISED = re.compile(r"[\u00b2\u00b3\u00b9\u2070-\u207f]+")  # which NFKC would put on the line
FRACTION = re.compile(r"[\u00bc-\u00be\u2150-\u215e]")  # NFKC makes 1/2 of it, and 11/2 of one and a half
ALIKE = str.maketrans({"\u2010": "-", "\u2013": "-", "\u2212": "-", "\u2044": "/", "\u2215": "/"})
BULLET = re.compile(r"^[ \t]*[-*+#>\u2022]+[ \t]", re.MULTILINE)
HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=\w)|(?<=\w)-(?=[^\W\d_]{2})")  # between words, not in x-2


def words_of(text: str) -> str:
    """With a space between each two."""
    text = FRACTION.sub(r" \g<0>", RAISED.sub(r"^\g<0>", INVISIBLE.sub("", text)))
    text = unicodedata.normalize("NFKC", text).casefold().translate(ALIKE)
    return " ".join(WORD.findall(HYPHEN.sub(" ", BULLET.sub("", text))))
