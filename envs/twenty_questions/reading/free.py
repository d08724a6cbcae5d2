"""An oracle that reads questions as people and large language models put them.

    text -> one sentence -> its core, spelled as it was meant -> guess | question (`questions`) | nothing

The core is the sentence without what is said around it ("okay, can you tell me if ...",
"..., right?"). Each step is sure of what it reads or hands on:

- a guess is an opening and one whole name and nothing else; words that are true of the
  object may stand before the name ("is it a red apple?"), and talk that says nothing around it;
- a question is about facts of the table, by phrases that leave no word unexplained, or about the object's size.

Two questions or guesses in one utterance are not understood at all.
"""

from __future__ import annotations

import re

from envs.twenty_questions.meaning import Meaning, words_of
from envs.twenty_questions.oracle import Oracle
from envs.twenty_questions.reading import phrases
from envs.twenty_questions.reading.lexicon import UNANSWERABLE, Lexicon
from envs.twenty_questions.reading.questions import Questions
from envs.twenty_questions.reading.sizes import UNITS_OF, Sizes
from envs.twenty_questions.reading.spelling import Spelling
from envs.twenty_questions.reading.stems import VARIANTS
from envs.twenty_questions.table import Table

ARTICLES = {"a", "an", "the", "some", "any", "my", "your"}
ANY_ARTICLES = {"a", "an", "some", "any"}
ODD = re.compile(r"[^\w\s.,;:?!'\"()/&%*-]|[^\x00-\x7f]")  # marks that nobody asks questions with
SENTENCE_END = re.compile(r"(?<=[?!])\s*|\.(?=\s|$)|\n|;")


def plural(name: tuple[str, ...]) -> tuple[str, ...]:
    last = name[-1]
    if last.endswith(("s", "sh", "ch", "x", "z", "to")):
        last += "es"
    elif last.endswith("y") and last[-2:-1] not in "aeiou":
        last = last[:-1] + "ies"
    else:
        last += "s"
    return (*name[:-1], last)


class FreeOracle(Oracle):
    def __init__(self, table: Table):
        super().__init__(table)
        self.called = {plural(words): name for words, name in self.names.items()} | self.names
        for words, name in self.names.items():
            self.called.setdefault(("".join(words),), name)
        taken = {" ".join(words) for words in self.called} | set(table.facts)
        self.elsewhere = phrases.ELSEWHERE - taken
        self.lexicon = Lexicon(table.facts.values(), table.beyond, phrases.SMALL, phrases.FILLERS, phrases.IGNORED)
        measures = {words_of(name): sizes for name, sizes in table.measures.items()}
        sized = all(name in table.measures for name in table.names)
        is_small = lambda word: word in phrases.SMALL or word in phrases.FILLERS  # noqa: E731
        self.questions = Questions(table, self.lexicon, Sizes(measures, is_small) if sized else None)
        names = self.name_words = {word for words in self.called for word in words}
        self.spelling = Spelling(
            self.lexicon.words | phrases.SMALL | phrases.FILLERS | phrases.TALK | names | phrases.FRAME_WORDS
            | {word for words in measures for word in words} | set(UNITS_OF) | phrases.OF_SIZES,
            phrases.SMALL | phrases.FRAME_WORDS,
            phrases.LANGUAGE,
        )  # fmt: skip

        self.kind_of = {fact.called: fact.name for fact in table.facts.values() if fact.called in table.names}
        self.asked = {  # as the scripted players put it
            words_of(question): Meaning(attribute=attribute.name)
            for attribute in table.attributes
            for question in attribute.ask
        }

    def _understand(self, text: str) -> Meaning | None:
        if (asked := self.asked.get(words_of(text))) is not None:
            return asked
        sentence = self._one_sentence(text)
        if sentence is None:
            return None
        guess = self._guess_in(sentence)
        if guess is not None:
            return Meaning(guess=guess, kind=self._kind_of_guess(guess, sentence))
        core = self._spelled(sentence)
        if not core or (" " not in core and "?" not in text and (core,) not in self.keywords):
            return None  # a lone word that may be anything
        return self.questions.read(core)

    def guess(self, text: str) -> str | None:
        sentence = self._one_sentence(text)
        return self._guess_in(sentence) if sentence is not None else None

    # --- what was said, without what is said around it ---

    def _one_sentence(self, text: str) -> str | None:
        """The sentence that asks; None if there are several, or the text is not in plain letters."""
        text = text.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"').strip()
        if ODD.search(text):
            return None
        sentences = [each for each in map(str.strip, SENTENCE_END.split(text)) if words_of(each)]
        asked = len(sentences) > 1 and (sentences[-2].endswith("?") or sentences[-1].endswith("?"))
        if asked and phrases.AFTERTHOUGHT.fullmatch(" ".join(words_of(sentences[-1]))):
            sentences.pop()
        if not sentences:
            return None
        if any(each.endswith("?") for each in sentences[:-1]):
            return None
        return None if any(self._says_something(each) for each in sentences[:-1]) else sentences[-1]

    def _says_something(self, sentence: str) -> bool:
        """Whether a sentence before the last is a guess of its own."""
        return self._guess_in(sentence) is not None

    def _without_asides(self, sentence: str) -> str:
        """ "is it, to the best of your knowledge, made of metal?": what stands between commas and says nothing."""
        first, *inner, last = parts if len(parts := sentence.split(",")) > 2 else (sentence, "")
        kept = [part for part in inner if not self._aside(_words(part))]
        return ",".join((first, *kept, last)) if inner else sentence

    def _aside(self, words: list[str]) -> bool:
        return bool(words) and words[0] in phrases.ASIDES and not self.lexicon.cover(words).spans

    def _spelled(self, sentence: str) -> str:
        sentence = self._without_asides(sentence)
        words = self.spelling.mended(_words(sentence))
        core = _core(" ".join(VARIANTS.get(word, word) for word in words))
        core = phrases.LIKE.sub(
            "", phrases.IS_LIKE.sub(r"\1 a ", phrases.SUBJECT.sub(lambda found: f"{found['verb'] or ''}it", core))
        )
        words = core.split()
        if len(words) > 3 and words[0] in phrases.AUXILIARIES and words[1] in ("the", "this", "that", "your"):
            subject = self.lexicon.word(words[2])[0]  # "does the animal have fur"
            if subject in self.questions.kinds:
                core = " ".join((words[0], "it", *words[3:]))
        return core

    # --- guesses ---

    def _guess_in(self, sentence: str) -> str | None:
        sentence = self._without_asides(sentence)
        return (
            self._guess_without_asides(sentence) or self._guess_before_aside(sentence) or self._guess_at_end(sentence)
        )

    def _kind_of_guess(self, name: str, sentence: str) -> str | None:
        """ "Is it a bear?" may ask for any bear; "I guess bear", "is it the bear?" and "is it a brown bear?" do not."""
        core = _core(" ".join(_words(sentence)))
        opening = phrases.GUESS_FRAME.match(core)
        if opening is None or opening["explicit"]:
            return None
        article, *said = core[opening.end() :].split()
        return self.kind_of.get(name) if article in ANY_ARTICLES and said == name.split() else None

    def _guess_before_aside(self, sentence: str) -> str | None:
        """ "Is it a tent, for camping?": a whole guess, and after the comma nothing that could be another."""
        said, comma, aside = sentence.partition(",")
        if len(_words(said)) < 2 and comma:
            said, comma, rest = aside.partition(",")  # "so, is it a tent, for camping?"
            aside = rest
        words = _words(aside)
        if words[:1] == ["or"] and words[1:2] and words[1] in phrases.ANY_OTHER:
            words = words[1:]
        if (
            not words
            or words[0] in phrases.OTHERWISE
            or not phrases.GUESS_FRAME.match(f"{_core(' '.join(_words(said)))} ")
        ):
            return None
        name = self._guess_without_asides(said)
        if name is None or phrases.DENIALS.intersection(words):
            return None
        if "or" in words:  # "or any watch", "or some other clock"
            words = words[words.index("or") + 1 :]
            if not words or words[0] not in phrases.ANY_OTHER:
                return None
        named = {self.called.get((word,), name) for word in self.spelling.mended(words)}
        return name if named <= {name} else None

    def _guess_at_end(self, sentence: str) -> str | None:
        """ "Eight legs, so is it a spider?": the last clause is a whole guess, and what is before it none."""
        before, _, last = re.sub("[:-]", ",", sentence).rpartition(",")
        core, said = _core(" ".join(_words(last))), self.spelling.mended(_words(before))
        if not said or not phrases.GUESS_FRAME.match(core) or not phrases.UNSURE.isdisjoint(said):
            return None
        if any(word in self.name_words or word in self.elsewhere for word in said):
            return None
        return self._framed(core)

    def _guess_without_asides(self, sentence: str) -> str | None:
        core = _core(" ".join(_words(sentence)))
        if not core:
            return None
        name = self._framed(core)
        if name is None:
            spelled = self.spelling.mended(core.split())
            name = self._framed(" ".join(spelled)) or self._talked(spelled)
        return name

    def _framed(self, core: str) -> str | None:
        opening = phrases.GUESS_FRAME.match(core)
        if opening is not None and (name := self._named(core[opening.end() :], bool(opening["explicit"]))) is not None:
            return name
        return self._named(core, explicit=False)

    def _talked(self, words: list[str]) -> str | None:
        """The one name among words that only say that this is a guess."""
        places = [place for place, word in enumerate(words) if word not in phrases.TALK and not word.isdigit()]
        if not places or len(words) < 2:
            return None
        named = tuple(words[places[0] : places[-1] + 1])
        before = words[: places[0]]
        if named not in self.called or not before:
            return None
        article = before[-1] in ARTICLES
        guessing = not phrases.GUESSING.isdisjoint(before) or (article and before[0] in phrases.BEFORE_A_GUESS)
        keyword = not article and named in self.keywords
        return self.called[named] if guessing and not keyword else None

    def _named(self, phrase: str, explicit: bool) -> str | None:
        """The object of which this is a whole name."""
        words = tuple(word for word in phrase.split() if word not in phrases.HEDGES)
        article = bool(words) and words[0] in ARTICLES
        words = words[article:]
        if not words or (words not in self.called and len(words) > 1 and words in self.lexicon.exact):
            return None  # "a big cat" is a kind of animals
        if len(words) > 2 and words[0] in phrases.PORTIONS and words[1] == "of" and words not in self.called:
            words = words[2:]
        while len(words) > 1 and words not in self.called and (words[0] in phrases.EPITHETS or words[-1] == "itself"):
            words = words[1:] if words[0] in phrases.EPITHETS else words[:-1]
        if words in self.called:
            plain_keyword = not article and not explicit and words in self.keywords
            return None if plain_keyword else self.called[words]
        if article and " ".join(words) in self.elsewhere:
            return " ".join(words)
        for start in range(1, min(len(words), 4)):
            name = self.called.get(words[start:])
            if name is not None and self._true_of(words[:start], name):
                return name
        return None

    def _true_of(self, words: tuple[str, ...], name: str) -> bool:
        """Whether these words all stand for attributes that the object has: a "red" apple."""
        truths = self.table.objects[name]
        meant = map(self.lexicon.word, words)
        return all(
            meaning != UNANSWERABLE and not meaning[1] and meaning[0] in truths for meaning in meant
        ) and not any((word,) in self.called for word in words)


def _words(sentence: str) -> list[str]:
    return re.findall(r"\d+\.\d+|[^\W_]+", re.sub(r"(?<=\d)(?=[a-z])", " ", sentence.lower().replace("'", "")))


def _core(text: str) -> str:
    """Words of the sentence, without leads such as "can you tell me if" and tags such as "right"."""
    core = text.replace(" by any chance", "")
    core = re.sub(r"\bnon (?=\w)", "non", re.split(r" (?:rather than|as opposed to|such as) ", core)[0])
    before = None
    while core != before:
        before = core
        core = phrases.WE_MEAN.sub("is it ", phrases.TAGS.sub("", phrases.LEADS.sub("", core)).strip())
    return core
