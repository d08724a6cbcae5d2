"""Questions that neither rules nor tables read, by the nearest of many of which it is known what they ask.

Known are those of `lore/asked.jsonl.xz` and "is there ..." with the phrases of its things, and what the rules know of
yes and no (`envs.text.nearest`). Where several things are as near, the answer is what holds of all of them, or none.
Embeddings do not hear a denial, a number or a name: such sentences never come here.
"""

from __future__ import annotations

from envs.guess_my_city.atlas import Atlas
from envs.guess_my_city.lore.doubts import ANTONYMS
from envs.guess_my_city.lore.fillers import COUNTRY, PAST, PERSONAL
from envs.guess_my_city.lore.reader import ALL, OF_COUNTRY
from envs.guess_my_city.lore.things import FOLDER
from envs.guess_my_city.lore.unread import is_unread
from envs.guess_my_city.lore.words import stems
from envs.guess_my_city.oracle import Oracle
from envs.guess_my_city.topics import Meaning
from envs.guess_my_city.wording import word_set, words_of
from envs.text.answer import sentences
from envs.text.nearest import CHOICE, DEAF, Nearest, questions_in

LEAST = 0.6  # likeness
FEWEST_WORDS, MOST_WORDS = 2, 40
LEAD = 3  # words, none of which may ask for more than yes or no
WH_WORDS = word_set("what whats who whos whose whom where when which why how name tell describe explain")
MOST_THINGS = 4
OF_RULES = "rule "


class NearestOracle(Oracle):
    def __init__(self, atlas: Atlas, paraphrases: bool, most_answers: int = 0):
        super().__init__(atlas, paraphrases, most_answers)
        self.nearest = Nearest(self._known(), LEAST)

    def _known(self) -> list[tuple[str, str]]:
        """Pairs of a thing, or the name of a rule's topic, and a question."""
        things = self.reader.things.things
        found = [pair for pair in questions_in(FOLDER / "asked.jsonl.xz") if pair[0] in things]
        found += [(key, f"is there {phrase}?") for phrase, key in self.reader.things.said.items()]
        for name, topic in self.rules.topics.items():
            for sentence in filter(None, (topic.ask, topic.has, *topic.examples)):
                meaning = None if "{" in sentence else self.rules.bare(topic, words_of(sentence))
                if meaning is not None and meaning.value == "yes":
                    found.append((OF_RULES + name, sentence.lower()))
        return found

    def _question(self, words: tuple[str, ...], asked: tuple[str, ...], text: str) -> Meaning | None:
        return super()._question(words, asked, text) or self._by_nearest(words, asked, text)

    def _by_nearest(self, words: tuple[str, ...], asked: tuple[str, ...], text: str) -> Meaning | None:
        if (
            len(sentences(text)) > 1
            or not self._may_be_asked(words)
            or ANTONYMS.search(" ".join(asked))
            or is_unread(words)
        ):
            return None
        found = self.nearest.to(text.lower())
        if found and all(key in self.reader.things.things for key in found):
            return self._of_things(found, words)
        if len(found) != 1:
            return None
        meaning = Meaning(found[0].removeprefix(OF_RULES), value="yes")
        return meaning if self._fits(meaning, words) else None

    def _of_things(self, found: list[str], words: tuple[str, ...]) -> Meaning | None:
        if len(found) > MOST_THINGS or (
            PAST.intersection(words) and not all(self.reader.things.things[key].lasting for key in found)
        ):
            return None
        tokens = stems(words)
        of_country = any(word in COUNTRY and not self.reader.of_city(tokens, at) for at, word in enumerate(tokens))
        return Meaning("thing", value=ALL.join(found) + (OF_COUNTRY if of_country else ""))

    def _may_be_asked(self, words: tuple[str, ...]) -> bool:
        if not FEWEST_WORDS <= len(words) <= MOST_WORDS or any(word[0].isdigit() for word in words):
            return False
        if (DEAF | PERSONAL | {"other"}).intersection(words) or WH_WORDS.intersection(words[:LEAD]):
            return False
        return not CHOICE.search(" ".join(words)) and not self.atlas.names.mentioned(words)
