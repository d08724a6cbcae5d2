"""What one player says to the other, made harmless before it is delivered.

A message arrives as one quoted line: `bob says: "..."`. Whatever it holds, it cannot close
its quotation, start a line of its own, pass for a chat template's control token or a role
marker, or be longer than LONGEST characters.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 280  # characters

_MARKS = str.maketrans({"<": "(", ">": ")", "[": "(", "]": ")", "{": "(", "}": ")", "|": "/", "#": "", '"': "'"})
_QUOTES = re.compile("[\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u2036\u275d\u275e]")  # as an eye would read them
_ROLE = re.compile(r"\b(system|assistant|user|human|developer|tool|ai|alice|bob)\s*:", re.IGNORECASE)


def harmless(message: str) -> str:
    """One line without control characters, look-alike marks, or roles that speak."""
    text = unicodedata.normalize("NFKC", message[: 4 * LONGEST])
    text = "".join(
        " " if each.isspace() else each for each in text if each.isspace() or unicodedata.category(each)[0] != "C"
    )
    text = _QUOTES.sub("'", text).translate(_MARKS)
    text = _ROLE.sub(r"\1 -", " ".join(text.split()))
    return text if len(text) <= LONGEST else text[: LONGEST - 3].rstrip() + "..."
