"""Questions that the rules do not read, by the nearest of many of which it is known what they ask.

    asked.jsonl.xz in the table's folder    {"f": name of a fact, "q": [questions that a yes to it answers]}
    the table itself                        the questions of its attributes, "is it ..." with the phrases of its facts

Each question is a point (`envs.text.embedding`). What is asked is as near to a fact as to the two nearest of its
questions. The nearest fact is taken if it is near enough. Others that are nearly as near are taken too: then the
answer is what all of them say, or none. Embeddings do not hear a denial or a number, and "what is it made of" is near
to "is it made of metal": such sentences never come here.

The points are made once and kept in $PARLEY_CACHE/twenty_questions, or else in ~/.cache/parley/twenty_questions.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import tempfile
from hashlib import blake2b
from pathlib import Path

import numpy as np

from envs.text.embedding import LocalEncoder, embed
from envs.twenty_questions.meaning import Claim, Meaning
from envs.twenty_questions.reading import phrases
from envs.twenty_questions.reading.free import FreeOracle
from envs.twenty_questions.table import Table

NEAR = 0.55  # the smallest likeness
CLEAR = 0.05  # facts that are less than this behind the nearest one are taken too
FIRST, SECOND = 0.6, 0.4  # weights of a fact's two nearest questions
MOST_WORDS = 40
LEAD = 3  # words, none of which may ask for more than yes or no
_DEAF = "outside unlike instead prohibited forbidden banned illegal impossible avoid fail fails than"
DEAF = phrases.DENIALS | frozenset(_DEAF.split())
CHOICE = re.compile(r"\bor (?:in|im|un|ir|non|dis)\w")  # "organic or inorganic?"
NAMING = re.compile(
    r"^(?:.* )?(?:is|its|be|of|pick|picked|chosen|choose|chose)(?: it)?(?: (?:a|an|the|some))? (?P<name>.+)$"
)
FORMAT = 1


class NearestOracle(FreeOracle):
    """The free oracle, and for what it cannot read the nearest question."""

    def __init__(self, table: Table):
        super().__init__(table)
        asked = list(dict.fromkeys(known_questions(table)))
        self.facts = list(dict.fromkeys(fact for fact, _ in asked))
        place = {fact: number for number, fact in enumerate(self.facts)}
        self.fact_of = np.array([place[fact] for fact, _ in asked])
        self.points = _kept([question for _, question in asked])

    def _understand(self, text: str) -> Meaning | None:
        return super()._understand(text) or self._nearest(text)

    def _nearest(self, text: str) -> Meaning | None:
        sentence = self._one_sentence(text)
        core = self._spelled(sentence) if sentence is not None else ""
        if not self._may_be_asked(core.split(), core):
            return None
        likeness = self.likeness(f"{core}?")
        best = float(likeness.max())
        if best < NEAR:
            return None
        found = [self.facts[number] for number in np.flatnonzero(likeness >= best - CLEAR)]
        if len(found) == 1:
            return Meaning(attribute=found[0])
        return Meaning(claim=Claim("agree", tuple((fact, False) for fact in found)))

    def likeness(self, question: str) -> np.ndarray:
        """float32 [facts]"""
        near = self.points @ embed([question])[0]
        first, second = (np.zeros(len(self.facts), np.float32) for _ in range(2))
        np.maximum.at(first, self.fact_of, near)
        near[near >= first[self.fact_of]] = 0.0
        np.maximum.at(second, self.fact_of, near)
        return FIRST * first + SECOND * second

    def _may_be_asked(self, words: list[str], core: str) -> bool:
        if not 2 <= len(words) <= MOST_WORDS or DEAF.intersection(words) or phrases.WH_WORDS.intersection(words[:LEAD]):
            return False
        if any(word[0].isdigit() for word in words) or CHOICE.search(core):
            return False
        named = NAMING.match(core)  # a guess in words that the rules do not know
        return named is None or tuple(named["name"].split()) not in self.called


def known_questions(table: Table) -> list[tuple[str, str]]:
    """Pairs of a fact and a question."""
    kept = table.folder / "asked.jsonl.xz"
    found = []
    if kept.is_file():
        for line in lzma.decompress(kept.read_bytes()).decode().splitlines():
            entry = json.loads(line)
            found += [(entry["f"], question.lower()) for question in entry["q"]]
    found += [(attribute.name, question) for attribute in table.attributes for question in attribute.ask]
    found += [(fact.name, f"is it {words}?") for fact in table.facts.values() for words in fact.words]
    return [(fact, question) for fact, question in found if fact in table.facts]


def _kept(questions: list[str]) -> np.ndarray:
    """float32 [questions, width]"""
    cache = os.environ.get("PARLEY_CACHE")
    room = (Path(cache).expanduser() if cache else Path.home() / ".cache" / "parley") / "twenty_questions"
    name = blake2b("\n".join([str(FORMAT), *questions]).encode(), digest_size=12).hexdigest()
    path = room / f"{name}.npy"
    if not path.is_file():
        points = LocalEncoder().encode(questions).astype(np.float16)
        try:
            room.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=room, delete=False) as file:
                np.save(file, points)
            os.replace(file.name, path)  # a file that is there is whole
        except OSError as error:
            raise ValueError(
                f"known questions cannot be kept in {room} ({error}): name another PARLEY_CACHE"
            ) from error
    return np.load(path).astype(np.float32)
