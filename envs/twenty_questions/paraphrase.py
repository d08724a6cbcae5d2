"""Questions in words that no rule knows: the nearest of the table's example questions.

A question is understood as an attribute if its embedding is near enough to one of that
attribute's examples (`NEAR`), and nearer by a margin (`MARGIN`) than to any example of
another attribute or of what the table cannot answer. A keyword in the question has to agree
with what the embedding says, and then less will do (`NEAR_WITH_KEYWORD`, no margin).

Texts with few known words are refused without asking the model: they are no questions, and
an embedding costs a thousand times what a rule does.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from envs.text.embedding import embed
from envs.twenty_questions.meaning import words_of
from envs.twenty_questions.phrases import SMALL
from envs.twenty_questions.table import Table

NEAR = 0.72
NEAR_WITH_KEYWORD = 0.57
MARGIN = 0.05
KNOWN_SHARE = 0.6  # of the words have to be known


class Paraphrases:
    def __init__(self, table: Table):
        examples = [(text, each.name) for each in table.attributes for text in (*each.ask, *each.examples)]
        examples += [(text, "") for text in table.beyond_examples]
        self.texts = [text for text, _ in examples]
        self.attributes = np.array([name for _, name in examples])
        phrases = [phrase for each in table.attributes for phrase in (*each.keywords, *each.opposites)]
        self.known = SMALL.union(*(words_of(text) for text in (*self.texts, *phrases)))

    @cached_property
    def vectors(self) -> np.ndarray:
        return embed(self.texts)

    def nearest(self, question: str, keywords: frozenset[str]) -> str | None:
        """The attribute that is asked for; `keywords` are those that words of it point to."""
        words = question.split()
        if sum(word in self.known for word in words) < KNOWN_SHARE * len(words):
            return None
        closeness = self.vectors @ embed([f"{question}?"])[0]
        best = int(closeness.argmax())
        meant = str(self.attributes[best])
        rival = closeness[self.attributes != meant].max()
        if not meant or (keywords and meant not in keywords):
            return None
        near, margin = (NEAR_WITH_KEYWORD, 0.0) if keywords else (NEAR, MARGIN)
        return meant if closeness[best] >= near and closeness[best] - rival >= margin else None
