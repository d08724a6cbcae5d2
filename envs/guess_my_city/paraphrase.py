"""Questions understood by their meaning, for words that the rules do not know.

The nearest example decides, if it is near enough and clearly nearer than any example that
means something else. Examples of nothing that can be answered take part too, so that small
talk has something to be near to. Embeddings hear "in Europe" in "outside Europe" and in "not
in Europe": such utterances never come here.
"""

from __future__ import annotations

import re

import numpy as np

from envs.guess_my_city.questions import ASKING, AUXILIARIES, SMALL, Rules, is_open
from envs.guess_my_city.topics import Meaning
from envs.guess_my_city.wording import word_set, words_of
from envs.text.embedding import embed

NEAR = 0.62  # smallest cosine
NEAR_WITH_VALUE = 0.5  # where the utterance names a value, which speaks for the topic
CLEAR = 0.04  # and this much nearer than anything else
FEWEST_WORDS, MOST_WORDS = 4, 25
SPARE = 2  # words that the rules may leave unexplained, and
VERIFIED = 0.5  # the smallest cosine that makes good for them
LEAD = 4  # words, one of which has to be "is", "does", "which" or the like
KNOWN_SHARE = 0.5  # of the words have to be ones that some question uses

# Words that turn a question into another one.
_NEGATIONS = (
    "not isnt arent wasnt werent doesnt dont didnt hasnt havent hadnt cant couldnt wont wouldnt never neither nor "
    "none without outside except besides unlike no nobody nothing rarely hardly beyond opposite lack lacks false "
    "untrue wrong exclude excluding instead different another same both either also once formerly former border "
    "borders bordering north south east west northern southern eastern western close closer closest near nearer far "
    "farther further away distance between asked next second third or and rare scarce scarcely scarcity shortage "
    "uncommon unusual infrequent absent absence devoid lacking missing bereft deprived void gone abolished banned "
    "forbidden outlawed"
)
NEGATIONS = word_set(_NEGATIONS)

# What people also say to a guessing game, and what it cannot answer.
SMALL_TALK = (
    "what time is it there", "how are you doing today", "do you like the city", "who is the mayor of the city",
    "who is the head of the government", "how much does a coffee cost", "is it expensive to live there",
    "is it a beautiful place", "is it a safe place", "can you give me a clue", "was my guess close",
    "am I getting warmer", "how far is the airport from the centre", "what colour are the buses",
    "what colours are on the flag", "how many cars are there", "how many animals live there",
    "who founded the city", "who was born there", "what is the area code", "what is the time zone",
    "have you been there", "is there an aquarium", "is there a zoo", "how do I get there",
    "is it near another big city", "what is the best hotel", "what is two times three",
    "how many questions do I have left", "I do not know what to ask", "what is the population of the country",
    "what is the capital of the country", "what countries does it border", "is the food expensive",
    "what is the unemployment rate", "which airline flies there", "what do people wear there",
    "what is the tallest building", "is it mentioned in a song", "how long does it take to fly there",
    "is it close to the border", "do they have good schools", "how old are you", "what is your favourite city",
    "how many districts does it have", "is there a twin city", "is there an airport",
)  # fmt: skip

NOTHING = Meaning("nothing")


def may_be_paraphrase(words: tuple[str, ...]) -> bool:
    """A question by its first words, neither too short nor too long, and nothing in it that embeddings are deaf to."""
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS or NEGATIONS.intersection(words):
        return False
    if not (ASKING | AUXILIARIES).intersection(words[:LEAD]):
        return False
    return not any(word[0].isdigit() for word in words)


class Paraphrases:
    """Made with the first utterance that needs it: embedding the examples takes a second or two."""

    def __init__(self, rules: Rules):
        self.rules = rules
        asked: dict[str, Meaning] = {}  # sentence -> what it asks, "" standing for the value in braces
        for name, topic in rules.topics.items():
            for sentence in (topic.ask, topic.which, topic.has, *topic.examples):
                if sentence:
                    asked[re.sub(r"[{}]", "", sentence)] = self._example(name, sentence)
        asked |= dict.fromkeys(SMALL_TALK, NOTHING)
        self.meanings = list(asked.values())
        self.rows = embed(list(asked))
        self.vocabulary = {word for sentence in asked for word in words_of(sentence)} | SMALL
        self.vocabulary |= {word for phrases in rules.phrases.values() for phrase in phrases for word in phrase}

    def _example(self, name: str, sentence: str) -> Meaning:
        topic = self.rules.topics[name]
        if "{" in sentence:
            return Meaning(name, value="")
        return self.rules.bare(topic, words_of(sentence)) or NOTHING

    def understand(self, text: str, words: tuple[str, ...]) -> Meaning | None:
        if sum(word in self.vocabulary for word in words) < KNOWN_SHARE * len(words):
            return None
        near = dict.fromkeys(self.meanings, -1.0)
        row = embed([text.lower()])[0]
        for meaning, likeness in zip(self.meanings, (self.rows @ row).tolist(), strict=True):
            near[meaning] = max(likeness, near[meaning])
        return self._verified(words, row, near) or self._nearest(words, near)

    def _verified(self, words: tuple[str, ...], row: np.ndarray, near: dict[Meaning, float]) -> Meaning | None:
        """What the rules would understand but for a few words, if it is near to what such questions mean."""
        meaning = self.rules.understand(words, spare=SPARE)
        if meaning is None or self.rules.foreign(meaning.topic, words):
            return None
        topic = self.rules.topics[meaning.topic]
        kind = (
            Meaning(topic.name, value="")
            if topic.kind == "list" and meaning.value not in (None, "yes", "no")
            else meaning
        )
        likeness = near.get(kind, -1.0)
        if kind is not meaning:
            likeness = max(likeness, float(embed([topic.ask.format(meaning.value)])[0] @ row))
        return meaning if likeness > max(VERIFIED, near[NOTHING] + CLEAR) else None

    def _nearest(self, words: tuple[str, ...], near: dict[Meaning, float]) -> Meaning | None:
        held = {name: self.rules.values_in(name, words) for name in self.rules.phrases}
        fitting = [each for each in near if each is NOTHING or self._fits(each, held[each.topic], words)]
        nearest, second = sorted(fitting, key=near.get, reverse=True)[:2]
        enough = NEAR_WITH_VALUE if nearest.value == "" else NEAR
        if nearest is NOTHING or near[nearest] < enough or near[nearest] - near[second] < CLEAR:
            return None
        if self.rules.foreign(nearest.topic, words):
            return None
        return Meaning(nearest.topic, value=next(iter(held[nearest.topic]))) if nearest.value == "" else nearest

    def _fits(self, meaning: Meaning, values: set[str], words: tuple[str, ...]) -> bool:
        """Asks in the same form, and about a value where the utterance names exactly one of the topic."""
        return len(values) == 1 if meaning.value == "" else not values and is_open(words) == meaning.open
