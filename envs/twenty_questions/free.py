"""An oracle that reads questions as people and large language models put them.

    text -> one sentence -> its core -> guess | comparison | keywords | paraphrase | nothing

The core is the sentence without what is said around it ("okay, can you tell me if ...",
"..., right?"). Each step is sure of what it reads or hands on:

- a guess is an opening and one whole name and nothing else; words that are true of the
  object may stand before the name ("is it a red apple?");
- a comparison sets the object's size or weight against that of a well-known thing, or
  against a number with a unit; objects of the same size are neither bigger nor smaller;
- keywords of exactly one attribute among everyday small words are a question about it;
- anything else that looks like a question is compared with the table's example questions
  by sentence embeddings (`paraphrase`), unless it names an object, denies or compares
  something: embeddings confuse a thing with its contrary.

A yes to "isn't it ...?" or "is it not ...?" could mean either, so these are not understood;
"is it something that is not ...?" and the table's own opposites are, as the contrary.
Two questions or guesses in one utterance are not understood at all.
"""

from __future__ import annotations

import re
from itertools import pairwise

from envs.twenty_questions import phrases
from envs.twenty_questions.meaning import Comparison, Meaning, words_of
from envs.twenty_questions.oracle import Oracle
from envs.twenty_questions.paraphrase import Paraphrases
from envs.twenty_questions.table import Table

ARTICLES = {"a", "an", "the", "some", "any", "my", "your"}
MORE = {"more", "bigger", "larger", "taller", "longer", "heavier"}
LONGEST_QUESTION = 30  # words; embeddings are not asked about more
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
        self.index: dict[tuple[str, ...], tuple[str, bool]] = {}  # phrase without articles -> attribute, contrary
        for attribute in table.attributes:
            for contrary, listed in ((False, attribute.keywords), (True, attribute.opposites)):
                for phrase in listed:
                    self.index.setdefault(_bare(words_of(phrase)), (attribute.name, contrary))
        beyond = {_bare(words_of(phrase)): ("", False) for phrase in table.beyond}
        self.index = beyond | self.index
        self.span = max(map(len, self.index))
        self.measures = {words_of(name): sizes for name, sizes in table.measures.items()}
        self.kinds = {  # attributes that are kinds of things, by how they are asked for: "is it a tool?"
            attribute.name
            for attribute in table.attributes
            if any(re.match("is it an? ", ask) for ask in attribute.ask)
        }
        self.paraphrases = Paraphrases(table)

    def _understand(self, text: str) -> Meaning | None:
        core = self._one_core(text)
        if core is None:
            return None
        guess = self._free_guess(core)
        return Meaning(guess=guess) if guess is not None else self._free_question(core)

    def guess(self, text: str) -> str | None:
        core = self._one_core(text)
        return self._free_guess(core) if core is not None else None

    # --- what was said, without what is said around it ---

    def _one_core(self, text: str) -> str | None:
        sentence = self._one_sentence(text)
        return (self._it(_core(sentence)) or None) if sentence is not None else None

    def _one_sentence(self, text: str) -> str | None:
        """The sentence that asks; None if there are several, or the text is not in plain letters."""
        text = text.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"').strip()
        if ODD.search(text):
            return None
        sentences = [each for each in map(str.strip, SENTENCE_END.split(text)) if words_of(each)]
        if not sentences:
            return None
        if any(each.endswith("?") for each in sentences[:-1]):
            return None
        return None if any(self._says_something(each) for each in sentences[:-1]) else sentences[-1]

    def _says_something(self, sentence: str) -> bool:
        """Whether a sentence before the last is a guess of its own."""
        return self._free_guess(_core(sentence)) is not None

    def _it(self, core: str) -> str:
        """The core with "it" for a kind of thing as the subject: "does the animal have fur"."""
        words = core.split()
        if len(words) > 3 and words[0] in phrases.AUXILIARIES and words[1] in ("the", "this", "that", "your"):
            subject = self._keyword(words[2])[0]
            return " ".join((words[0], "it", *words[3:])) if subject in self.kinds else core
        return core

    # --- guesses ---

    def _free_guess(self, core: str) -> str | None:
        opening = phrases.GUESS_FRAME.match(core)
        if opening is not None and (name := self._named(core[opening.end() :], bool(opening["explicit"]))) is not None:
            return name
        return self._named(core, explicit=False)

    def _named(self, phrase: str, explicit: bool) -> str | None:
        """The object of which this is a whole name."""
        words = tuple(word for word in phrase.split() if word not in phrases.HEDGES)
        article = bool(words) and words[0] in ARTICLES
        words = words[article:]
        if not words:
            return None
        if len(words) > 2 and words[0] in phrases.PORTIONS and words[1] == "of" and words not in self.called:
            words = words[2:]
        if words in self.called:
            plain_keyword = not article and not explicit and _bare(words) in self.index
            return None if plain_keyword else self.called[words]
        for start in range(1, min(len(words), 4)):
            name = self.called.get(words[start:])
            if name is not None and self._true_of(words[:start], name):
                return name
        return None

    def _true_of(self, words: tuple[str, ...], name: str) -> bool:
        """Whether these words all stand for attributes that the object has: a "red" apple."""
        truths = self.table.objects[name]
        meant = map(self._keyword, words)
        return all(not contrary and attribute in truths for attribute, contrary in meant) and not any(
            (word,) in self.called for word in words
        )

    def _keyword(self, word: str) -> tuple[str, bool]:
        """What a single word stands for; "nonmetallic" is the contrary of "metallic"."""
        if (word,) not in self.index and word.startswith("non") and (word[3:],) in self.index:
            attribute, contrary = self.index[word[3:],]
            return attribute, not contrary
        return self.index.get((word,), ("", False))

    # --- questions ---

    def _free_question(self, core: str) -> Meaning | None:
        words = core.split()
        if words[0] in phrases.WH_WORDS or not self._about_it(words):
            return None
        if comparison := self._comparison(core):
            return Meaning(comparison=comparison)
        core, denied = _denial(core)
        if denied is None:
            return None
        found, rest = self._keywords(core.split())
        if phrases.ACTS.search(core):
            found -= {("edible", False), ("drink", False)}
        if ("", False) in found or not (found or rest) or "than" in rest or phrases.AS_AS.search(core):
            return None
        if len(found) > 1:
            return None if "or" in words else self._both(found, rest, core, denied)
        if found and not rest:
            attribute, contrary = found.pop()
            return Meaning(attribute=attribute, negated=contrary != denied) if not (contrary and denied) else None
        if denied or any(contrary for _, contrary in found) or self._narrowed(core, rest):
            return None
        return self._paraphrase(core, frozenset(name for name, _ in found), rest)

    def _about_it(self, words: list[str]) -> bool:
        """A question about the object, or a phrase that needs no subject ("made of wood?")."""
        if words[0] == "are" and words[1:2] == ["you"]:
            return False
        return not phrases.SUBJECTS.isdisjoint(words) or (words[0] not in phrases.AUXILIARIES and len(words) <= 5)

    def _both(self, found: set[tuple[str, bool]], rest: list[str], core: str, denied: bool) -> Meaning | None:
        """Several attributes in one question: one that includes all others (a carnivorous animal
        is a carnivore), a kind of thing that has an attribute ("an animal that can fly"), or
        one that the whole sounds like ("would it be heavy to lift?")."""
        if any(contrary for _, contrary in found):
            return None
        words, yes, names = core.split(), self.table.yes, sorted(name for name, _ in found)
        for name in names:
            if not rest and not denied and all(yes[name] & ~yes[other] == 0 for other in names):
                return Meaning(attribute=name)
        if len(names) > 2 or "and" in words:
            return None
        for word, after in zip(words, (*words[1:], ""), strict=True):
            kind = self._keyword(word)[0]
            if (
                not rest
                and kind in names
                and kind in self.kinds
                and after in phrases.AFTER_KIND
                and words[0] in phrases.BEING
            ):
                return Meaning(attribute=next(name for name in names if name != kind), kind=kind, negated=denied)
        return None if denied else self._paraphrase(core, frozenset(names), rest)

    def _narrowed(self, core: str, rest: list[str]) -> bool:
        """Whether an unknown word narrows a kind of thing: a percussion instrument is not any instrument."""
        words = _bare(tuple(core.split()))
        return any(one in rest and self._keyword(other)[0] in self.kinds for one, other in pairwise(words))

    def _keywords(self, words: list[str]) -> tuple[set[tuple[str, bool]], list[str]]:
        """Attributes by keywords, and the words that nothing explains: as few of these as can
        be; then as few small words outside of keywords; then as few keywords."""
        bare = _bare(tuple(words))
        best: list[tuple[tuple[int, int, int], tuple, tuple]] = [((0, 0, 0), (), ())]  # for the first 0, 1, ... words
        for end, word in enumerate(bare, start=1):
            (unknown, small, count), found, rest = best[-1]
            single = self._keyword(word)
            if single[0]:
                options = [((unknown, small, count + 1), (*found, single), rest)]
            elif word in phrases.SMALL:
                options = [((unknown, small + 1, count), found, rest)]
            else:
                options = [((unknown + 1, small, count), found, (*rest, word))]
            for start in range(max(0, end - self.span), end):
                (unknown, small, count), found, rest = best[start]
                if bare[start:end] in self.index:
                    meant = self.index[bare[start:end]]
                    options.append(((unknown, small, count + 1), (*found, meant), rest))
                elif bare[start:end] in phrases.IGNORED:
                    options.append(((unknown, small, count), found, rest))
            best.append(min(options, key=lambda option: option[0]))
        return set(best[-1][1]), list(best[-1][2])

    def _paraphrase(self, core: str, keywords: frozenset[str], rest: list[str]) -> Meaning | None:
        words = core.split()
        if not 3 <= len(words) <= LONGEST_QUESTION or self._mentions_an_object(rest):
            return None
        if phrases.SUBJECTS.isdisjoint(words) or (not keywords and phrases.A_THING.match(core)):
            return None  # "is it a unicorn?" names something, though nothing in the table
        meant = self.paraphrases.nearest(core, keywords)
        return Meaning(attribute=meant) if meant is not None else None

    def _mentions_an_object(self, rest: list[str]) -> bool:
        return any(tuple(rest[start:end]) in self.called for end in range(len(rest) + 1) for start in range(end))

    # --- comparisons ---

    def _comparison(self, core: str) -> Comparison | None:
        if match := phrases.MEASURED.search(core):  # "taller than two meters", "more than 10 kg"
            number, unit = match["number"], phrases.UNITS_OF.get(match["unit"])
            value = phrases.NUMBERS.get(number) if number in phrases.NUMBERS else _number(number)
            if unit is not None and value is not None and self._only_small(core[: match.start()]):
                return self._sized(match["how"] in MORE, unit[0], value * unit[1], match[0])
        for pattern, unit in ((phrases.COMPARED, "cm"), (phrases.WEIGHED, "kg")):
            match = pattern.search(core)
            if match is None or not self._only_small(core[: match.start()]):
                continue
            words = tuple(match["than"].split())
            sizes = self.measures.get(words[words[0] in ARTICLES :])
            if sizes is None:
                return None
            kilograms = unit == "kg" or match["how"] in ("heavier", "lighter")
            return self._sized(match["how"] in MORE, "kg" if kilograms else "cm", sizes[kilograms], match[0])
        return None

    def _sized(self, more: bool, unit: str, value: float, words: str) -> Comparison | None:
        if any(name not in self.table.measures for name in self.table.names):
            return None  # a table without sizes
        return Comparison(more, unit, value, words)

    def _only_small(self, text: str) -> bool:
        return all(word in phrases.SMALL or word in ("weigh", "weighs", "even", "still") for word in text.split())


def _bare(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in phrases.FILLERS)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _core(sentence: str) -> str:
    """Words of the sentence, without leads such as "can you tell me if" and tags such as "right"."""
    core = " ".join(re.findall(r"\d+\.\d+|[^\W_]+", sentence.lower().replace("'", "")))
    core = core.replace(" by any chance", "")
    core = re.sub(r"\bnon (?=\w)", "non", core.split(" rather than ")[0])
    before = None
    while core != before:
        before = core
        core = phrases.WE_MEAN.sub("is it ", phrases.TAGS.sub("", phrases.LEADS.sub("", core)).strip())
    return core


def _denial(core: str) -> tuple[str, bool | None]:
    """The core without its denial, and whether there was one; None if it could be meant either way."""
    if phrases.DENIALS.isdisjoint(core.split()) and not phrases.DENYING.search(core):
        return core, False
    rest, count = phrases.DENIED_THING.subn(r"\g<thing> ", core)
    if count == 1 and phrases.DENIALS.isdisjoint(rest.split()) and not phrases.DENYING.search(rest):
        return " ".join(rest.split()), True
    return core, None
