"""Questions that the rules do not read, by the nearest of many of which it is known what they ask.

Known are those of `asked.jsonl.xz` in the table's folder, the questions of its attributes, and "is it ..." with the
phrases of its facts (`envs.text.nearest`). Where several facts are as near, the answer is what all of them say, or
none. Embeddings do not hear a denial or a number, and "what is it made of" is near to "is it made of metal": such
sentences never come here.
"""

from __future__ import annotations

import re

from envs.text.nearest import CHOICE, DEAF, Nearest, questions_in
from envs.twenty_questions.meaning import Claim, Meaning
from envs.twenty_questions.reading import phrases
from envs.twenty_questions.reading.free import FreeOracle
from envs.twenty_questions.table import Table

LEAST = 0.55  # likeness
MOST_WORDS = 40
LEAD = 3  # words, none of which may ask for more than yes or no
NAMING = re.compile(
    r"^(?:.* )?(?:is|its|be|of|pick|picked|chosen|choose|chose)(?: it)?(?: (?:a|an|the|some))? (?P<name>.+)$"
)


class NearestOracle(FreeOracle):
    """The free oracle, and for what it cannot read the nearest question."""

    def __init__(self, table: Table):
        super().__init__(table)
        self.nearest = Nearest(known_questions(table), LEAST)

    def _understand(self, text: str) -> Meaning | None:
        return super()._understand(text) or self._by_nearest(text)

    def _by_nearest(self, text: str) -> Meaning | None:
        sentence = self._one_sentence(text)
        core = self._spelled(sentence) if sentence is not None else ""
        found = self.nearest.to(f"{core}?") if self._may_be_asked(core.split(), core) else []
        if len(found) > 1:
            return Meaning(claim=Claim("agree", tuple((fact, False) for fact in found)))
        return Meaning(attribute=found[0]) if found else None

    def _may_be_asked(self, words: list[str], core: str) -> bool:
        if (
            not 2 <= len(words) <= MOST_WORDS
            or (DEAF | phrases.DENIALS).intersection(words)
            or phrases.WH_WORDS.intersection(words[:LEAD])
        ):
            return False
        if any(word[0].isdigit() for word in words) or CHOICE.search(core):
            return False
        named = NAMING.match(core)  # a guess in words that the rules do not know
        return named is None or tuple(named["name"].split()) not in self.called


def known_questions(table: Table) -> list[tuple[str, str]]:
    """Pairs of a fact and a question."""
    found = questions_in(table.folder / "asked.jsonl.xz")
    found += [(attribute.name, question) for attribute in table.attributes for question in attribute.ask]
    found += [(fact.name, f"is it {words}?") for fact in table.facts.values() for words in fact.words]
    return [(fact, question) for fact, question in found if fact in table.facts]
