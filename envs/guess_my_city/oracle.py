"""The one who knows the city: understands utterances and answers them.

    text -> guess of one city | question about the name | question of the rules | paraphrase | nothing

The answer is a sentence of the table's own words, never of the player's, and depends on the
city only through what was asked. No answer holds a piece of the city's name: an answer that
would is withheld, and the next best true one is given instead.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from envs.guess_my_city.atlas import Atlas, City
from envs.guess_my_city.lore.doubts import (
    ANTONYMS,
    ASKS_FOR_IT,
    ELSEWHERE,
    MOST_POPULAR,
    OF_MANY,
    OF_NAME,
    OF_SPEAKER,
    WIDER_THAN_COUNTRY,
)
from envs.guess_my_city.lore.fillers import LIVES, PERSONAL, TURNING
from envs.guess_my_city.lore.frames import NEGATIONS, bare, is_open, plain
from envs.guess_my_city.lore.guesses import Guesses
from envs.guess_my_city.lore.reader import GENERAL, Reader
from envs.guess_my_city.lore.spelling import Speller
from envs.guess_my_city.lore.told import Told, tellable
from envs.guess_my_city.lore.unread import in_its_tense, is_narrower, is_unread
from envs.guess_my_city.lore.words import stem
from envs.guess_my_city.paraphrase import SPARE, Paraphrases, may_be_paraphrase
from envs.guess_my_city.questions import SMALL, Rules
from envs.guess_my_city.topics import Meaning, Topic, topics
from envs.guess_my_city.wording import LONGEST, join_values, key_of, words_of
from envs.text import guessing

INVALID = "I cannot answer that."
LOOSE = ("landmark", "food", "fame", "language", "climate", "altitude", "population")
LOOSELY_TOLD = (*LOOSE, "religion", "region", "sea", "founded")  # open questions only
_ODD = re.compile(r"[{}~|\\\x00-\x08\x0e-\x1f\x7f-\x9f]")  # marks that nobody asks with: only a whole name counts
NAME_REFUSED = "I say nothing about the name."
RIGHT = "Yes, that is the city."
WRONG = "No, that is not the city."
TOO_TELLING = "That would tell too much."
MOST_WORDS = 40
LORE = {
    ("yes", False): "Yes, that is true.", ("no", False): "No, that is not true.",
    ("yes", True): "Yes, that is true of its country.", ("no", True): "No, that is not true of its country.",
}  # fmt: skip
CACHED = 65536  # utterances of one table
FAR = 1e12  # beyond any number of any city
FEWEST_LETTERS = 6
SHORTEST_WORD = 4  # that says something by itself: "Rome?"

_NAMES = frozenset(("name", "names", "named"))
_NAME_OF = re.compile(
    r"\b(?:country|river|sea|ocean|currency|money|language|lake|mountains?|airport|religion|"
    r"continent|state) name\b|\bname of (?!(?:the |its |your |a |an )?(?:city|town|place|it\b|this|"
    r"that|mayor))\w|^(?:please )?name (?:a|an|one|some|the|its|your) (?!city|town|place)\w"
)
_SCRIPT = re.compile(
    r"\b(?:latin|roman|cyrillic|arabic|greek|hebrew|chinese|japanese|thai|own|which|what|different|"
    r"western) (?:alphabet|script|letters?)\b(?!.* (?:name|start|begin))"
)
_NONE: frozenset[str] = frozenset()
FAR_FROM_SEA = frozenset(("sea", "ocean", "coast", "inland", "east"))
OF_CITY = (
    "sea",
    "island",
    "river",
    "mountains",
    "snow",
    "hot",
    "population",
    "altitude",
    "founded",
    "climate",
    "metro",
    "fame",
    "landmark",
)


class Oracle:
    """Understands utterances about one table. Holds no secret; `answer` is told it."""

    def __init__(self, atlas: Atlas, paraphrases: bool, most_answers: int = 0):
        self.atlas = atlas
        self.most_answers = most_answers
        self.topics = topics()
        self.rules = Rules(atlas)
        self.reader = Reader(atlas)
        self.tables = Told(atlas.words["country"])
        common = {word for phrases in self.rules.phrases.values() for phrase in phrases for word in phrase} | SMALL
        known = common | self.reader.words() | {word for name in atlas.names.cities for word in name}
        self.speller = Speller(known, frequent=common)
        self.guesses = Guesses(atlas, known)
        self._said_by_players = self._questions()
        self._paraphrases: Paraphrases | None = None
        self._paraphrasing = paraphrases
        self._understood = lru_cache(maxsize=CACHED)(self._understand)
        self._heard = lru_cache(maxsize=CACHED)(self._read)
        self.answer = lru_cache(maxsize=CACHED)(self._answer)

    def _questions(self) -> set[str]:
        """What scripted players ask, which is answered by the tables alone."""
        said = set()
        for name, topic in self.topics.items():
            said |= {topic.which, topic.has}
            if "{}" in topic.ask and topic.kind == "list":
                said |= {topic.ask.format(value) for value in self.atlas.values[name].values()}
        return {" ".join(words_of(each)) for each in said}

    def understand(self, text: str) -> Meaning | None:
        """What is said in a turn, in whatever form models put it."""
        if _ODD.search(text):
            return guessing.read(text, self._one_guess, self._one_guess)
        return self._heard(text) if len(text) <= LONGEST else self._read(text)

    def _read(self, text: str) -> Meaning | None:
        return guessing.read(text, self._one, self._one_guess)

    def _one(self, text: str) -> Meaning | None:
        """What a single question or guess means."""
        return self._understood(text) if len(text) <= LONGEST else None

    def _one_guess(self, text: str) -> Meaning | None:
        words = words_of(text) if len(text) <= LONGEST else ()
        city = self.atlas.names.guess(words) if is_speech(words) or is_initials(text) else None
        return Meaning("guess", value=city) if city is not None else None

    def _understand(self, text: str) -> Meaning | None:
        words = words_of(text)
        known = text.isascii() and (self._is_value(words) or is_initials(text) and words in self.atlas.names.cities)
        if len(words) > MOST_WORDS or not (is_speech(words) or known):
            return None
        city = self.atlas.names.guess(words)
        if city is not None and not (len(words) == 1 and self._is_value(words)):
            return Meaning("guess", value=city)
        spelt = self.speller.words(plain(words))
        said = " ".join(spelt)
        if (OF_NAME.search(said) and not _SCRIPT.search(said)) or ASKS_FOR_IT.match(" ".join(words)):
            return Meaning("name")
        if _NAMES.intersection(spelt) and not _NAME_OF.search(said):
            meaning = self.rules.understand(words)
            if not (meaning and meaning.open):
                return Meaning("name")
        for frame in (bare(plain(words)), bare(spelt)):
            city = self.guesses.read(frame)
            if city is not None:
                return Meaning("guess", value=city)
        if (city := self.guesses.before_aside(text)) is not None:
            return Meaning("guess", value=city)
        if OF_SPEAKER.search(said):
            return None
        meaning = in_its_tense(self._question(words, bare(spelt), text), spelt, self.topics)
        if meaning is not None and meaning.topic == "sport" and meaning.value and not MOST_POPULAR.intersection(words):
            return replace(meaning, loose=" ".join(words) not in self._said_by_players)
        loose = LOOSELY_TOLD if meaning is not None and meaning.open else LOOSE
        if meaning is None or meaning.topic not in loose or " ".join(words) in self._said_by_players:
            return meaning
        return replace(meaning, loose=True)

    def _question(self, words: tuple[str, ...], asked: tuple[str, ...], text: str) -> Meaning | None:
        """By the rules as it stands, or spelt right and without what is around it; by the tables; by its meaning."""
        if ANTONYMS.search(" ".join(asked)):
            return None
        exact = self._by_rules(words) if words[:2] != ("how", "far") else None
        if exact is not None and exact.value not in (None, "yes", "no"):
            return exact
        if exact is None and asked:
            exact = self.reader.figures.read(asked) or (self._by_rules(asked) if asked[:2] != ("how", "far") else None)
        read = self.reader.read(asked) if exact is None or exact.open or self.reader.is_terse(asked) else None
        if exact is not None and (read is None or not self._preferred(read, exact)):
            return exact
        if read is not None:
            return read
        loose = self.rules.understand(asked, spare=SPARE) if asked and not is_open(asked) else None
        if loose is not None and not loose.open and self._fits(loose, asked) and self._plain(loose, asked):
            return loose
        if (
            not (self._paraphrasing and may_be_paraphrase(words))
            or self.atlas.names.mentioned(words)
            or is_unread(asked)
        ):
            return None
        if self._paraphrases is None:
            self._paraphrases = Paraphrases(self.rules)
        return self._paraphrases.understand(text, words)

    def _by_rules(self, words: tuple[str, ...]) -> Meaning | None:
        meaning = self.rules.understand(words)
        return meaning if meaning is not None and self._fits(meaning, words) else None

    def _preferred(self, read: Meaning, exact: Meaning) -> bool:
        """Where the rules hear an open question: the tables know better what it is about."""
        if not exact.open:
            return read.topic != "thing" and read.open
        return (
            read.topic == "thing" or read.topic.startswith("told") and exact.topic in (*GENERAL, "food", "sea", "river")
        )

    def _plain(self, meaning: Meaning, words: tuple[str, ...]) -> bool:
        """Nothing that turns it round is among the words that the rules leave unexplained."""
        if meaning.topic in ("olympics", "nickname", "province", "food", "landmark", "fame") or self.rules.foreign(
            meaning.topic, words
        ):
            return False
        own = {word for phrase in self.rules.phrases[meaning.topic] for word in phrase} | SMALL
        rest = [word for word in words if word not in own]
        return not any(word in NEGATIONS or stem(word) in TURNING | LIVES or self.reader.knows(word) for word in rest)

    def _fits(self, meaning: Meaning, words: tuple[str, ...]) -> bool:
        """Not: a question about the country where the topic is of the city, nor one about the speaker."""
        if PERSONAL.intersection(words) or words[:4] == ("how", "old", "are", "you") or is_narrower(meaning, words):
            return False
        if (
            "far" in words
            and meaning.topic in ("province", "country", "continent", "region", "sea")
            and not FAR_FROM_SEA.intersection(words)
        ):
            return False
        if (
            meaning.value is not None
            and "within" not in words
            and ELSEWHERE.get(meaning.topic, _NONE).intersection(words)
        ):
            return False
        if meaning.topic == "largest" and WIDER_THAN_COUNTRY.intersection(words):
            return False
        return meaning.topic not in OF_CITY or not {"country", "nation"}.intersection(words)

    def answers(self) -> set[str]:
        """Every answer that any question can get."""
        said = {"Yes.", "No.", INVALID, NAME_REFUSED, RIGHT, WRONG, TOO_TELLING, *LORE.values()}
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
                said.update(self._answer(Meaning(name, loose=True), key) for name in LOOSELY_TOLD)
                said.update(self._answer(Meaning(f"told {name}"), key) for name in tellable())
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
        if self.most_answers and meaning.open and self._answers_to(meaning) > self.most_answers:
            return self.answer(replace(meaning, loose=False), secret) if meaning.loose else TOO_TELLING
        return self._told(meaning, secret)

    @lru_cache(maxsize=256)  # noqa: B019 - an oracle lives as long as its process
    def _answers_to(self, meaning: Meaning) -> int:
        """How many different answers the cities get."""
        return len({self._told(meaning, city) for city in self.atlas.cities})

    def _told(self, meaning: Meaning, secret: str) -> str:
        city = self.atlas.cities[secret]
        answer = self._lore(meaning, city) if meaning.topic not in self.topics else None
        if answer is None and meaning.topic not in self.topics:
            return INVALID
        answer = answer or (self._loosely(meaning, city) if meaning.loose else None)
        answer = answer or self._truth(self.topics[meaning.topic], meaning, city)
        if not city.gives_away(answer):
            return answer
        word = answer.split(", ", 1)[0]
        return f"{word}." if word in ("Yes", "No") else INVALID

    def _lore(self, meaning: Meaning, city: City) -> str | None:
        kind, _, what = meaning.topic.partition(" ")
        if kind == "told":
            return self.tables.answer(what, city)
        of_country = meaning.value is not None and meaning.value.endswith("@") or what in ("area", "inhabitants")
        if kind == "thing":
            status = self.reader.status(meaning.value or "", city.key, key_of(city.facts["country"][0]))
        else:
            status = self.reader.figures.status(meaning, city.key)
        return LORE.get((status, of_country))

    def _loosely(self, meaning: Meaning, city: City) -> str | None:
        """What people would say beyond the tables' own choice; None: nothing more than the tables."""
        if meaning.open:
            return self.tables.more(meaning.topic, city)
        if meaning.value is None or meaning.value in city.truths.get(meaning.topic, ()):
            return None
        status = self.reader.commonly(meaning.topic, meaning.value, city.key, key_of(city.facts["country"][0]))
        if status == "no" and self.tables.says(meaning.topic, meaning.value, city):
            status = "yes"
        elif status == "no" and (meaning.topic == "sport" or OF_MANY.intersection(meaning.value.split())):
            status = "maybe"
        if status == "yes" and meaning.value in self.atlas.values[meaning.topic]:
            return self.topics[meaning.topic].yes.format(self.atlas.values[meaning.topic][meaning.value])
        return LORE[status, False] if status == "yes" else INVALID if status == "maybe" else None

    def _truth(self, topic: Topic, meaning: Meaning, city: City) -> str:
        if topic.kind == "flag":
            return self._flag(topic, meaning, city)
        if topic.kind == "number":
            return self._number(topic, meaning, city.numbers[topic.name])
        return self._open(topic, city) if meaning.open else self._closed(topic, meaning.value, city)

    def _flag(self, topic: Topic, meaning: Meaning, city: City) -> str:
        true = topic.name in city.flags
        if topic.name in city.doubtful:
            return INVALID
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
            if not has and topic.name in city.doubtful:
                return INVALID
            return _agree(topic.some if has else topic.without, has == (value == "yes"))
        if value in city.truths[topic.name]:
            return topic.yes.format(self.atlas.values[topic.name][value])
        return topic.no


def is_speech(words: tuple[str, ...]) -> bool:
    """Too few letters are more often noise than a question: "is it LA" is speech, "ùÆ" is not the UAE."""
    return sum(map(len, words)) >= FEWEST_LETTERS or len(words) == 1 and len(words[0]) >= SHORTEST_WORD


def is_initials(text: str) -> bool:
    """ "NYC" and "L.A.": nothing but capital letters."""
    return text.isascii() and text.isupper() and len(words_of(text)) == 1


def _statement(answer: str) -> str:
    """The answer without its yes or no."""
    said = answer.split(", ", 1)[1]
    return said[0].upper() + said[1:]


def _agree(answer: str, agrees: bool) -> str:
    """The same statement as an answer to the opposite question: "inland?" - "No, it lies on the coast"."""
    said = answer.split(", ", 1)[1]
    return f"{'Yes' if agrees else 'No'}, {said}"
