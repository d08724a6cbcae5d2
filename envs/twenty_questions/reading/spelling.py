"""Words as they were meant: slips of the finger are mended, words that exist are left alone.

    known word             stays, and so does a word of the language that looks like one ("cable" is no "table")
    chat                   "u" is "you", "smth" is "something"
    two words              "isit" is "is it", "mad eof" is "made of"
    nearest known word     one slip in four to seven letters, two in more; a tie is nobody's word

A slip is one letter added, left out, replaced, or swapped with its neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from envs.text.typos import Near, shortened
from envs.twenty_questions.reading.stems import stem

CHAT = {
    "isit": "is it",
    "doesit": "does it",
    "canit": "can it",
    "isita": "is it a",
    "u": "you", "ur": "your", "r": "are", "y": "why", "wat": "what", "wut": "what", "dat": "that", "tht": "that",
    "wud": "would", "cud": "could", "shud": "should", "smth": "something", "sumthing": "something", "sth": "something",
    "ppl": "people", "pls": "please", "plz": "please", "thx": "thanks", "bc": "because", "cuz": "because", "n": "and",
    "cn": "can", "hav": "have", "da": "the", "teh": "the", "ti": "it", "si": "is", "os": "is", "fo": "of", "ot": "to",
    "od": "do", "ni": "in", "ont": "not", "adn": "and", "nad": "and", "hte": "the", "oen": "one", "yuo": "you",
    "eta": "eat", "cna": "can", "dose": "does", "deos": "does", "doe": "does", "tme": "time", "wiht": "with",
    "whit": "with", "fro": "for", "ofr": "for", "thsi": "this", "thign": "thing", "iz": "is", "itz": "its",
    "kinda": "kind of", "sorta": "sort of", "gonna": "going to", "wanna": "want to", "gotta": "have to",
    "coulda": "could have", "fave": "favorite", "pic": "picture", "pics": "pictures", "telly": "television",
    "veg": "vegetable", "veggies": "vegetables", "tech": "technology", "app": "app", "rn": "now", "tho": "though",
    "lol": "", "lmao": "", "haha": "", "hahaha": "", "af": "very", "bro": "", "dude": "", "btw": "", "idk": "",
    "innit": "right", "hmmm": "hmm", "mmm": "hmm", "abt": "about", "b4": "before", "w": "with", "wo": "without",
    "em": "them", "ya": "you", "wit": "with", "dis": "this", "ive": "i have", "thru": "through", "cant": "cant",
    "anmial": "animal", "fod": "food", "fram": "farm", "mommies": "mothers", "mummies": "mothers", "alot": "a lot",
    "inot": "into", "fom": "from", "frm": "from", "nd": "and", "wich": "which", "whcih": "which", "biiig": "big",
    "thn": "than", "bre": "be",
    "hom": "home", "gals": "glass", "coking": "cooking", "usd": "used", "tres": "trees",
    "mak": "make", "maed": "made", "wher": "where", "whn": "when",
    "ths": "this", "evry": "every", "dya": "day", "oe": "or", "fr": "for", "wth": "with", "hv": "have",
    "hs": "has", "hsa": "has", "ahs": "has", "wlak": "walk", "lgiht": "light", "livs": "lives", "liv": "live",
}  # fmt: skip

SLIPPED = {(verb, "it") for verb in ("is", "does", "can", "has", "did")}


class Spelling:
    def __init__(self, known: Iterable[str], frequent: Iterable[str] = (), language: Iterable[str] = ()):
        self.known = frozenset(known)
        self.stems = frozenset(map(stem, self.known))
        self.frequent = frozenset(frequent)
        self.language = frozenset(language)
        long_enough = (word for word in self.known if len(word) >= 4 and word.isalpha())
        self.near = Near((word, 1 if len(word) < 8 else 2) for word in long_enough)
        self.longer: dict[str, set[str]] = {}  # what is left of a frequent word of four letters -> the word
        for word in self.frequent:
            if len(word) == 4:
                for part in shortened(word, 1) - {word}:
                    self.longer.setdefault(part, set()).add(word)
        self.nearest = lru_cache(maxsize=16384)(self._nearest)

    def mended(self, words: list[str]) -> list[str]:
        if len(words) > 1 and (words[0] + words[1][0], words[1][1:]) in SLIPPED:
            words = [words[0] + words[1][0], words[1][1:], *words[2:]]  # "doe sit" is made of words, but means nothing
        said = [part for word in words for part in (CHAT[word].split() if word in CHAT else (word,))]
        done: list[str] = []
        for place, word in enumerate(said):
            if self.fine(word):
                done.append(word)
            elif done and (pair := self._pair(said[place - 1], word)) is not None:
                done[-1:] = pair
            else:
                done += self._split(word) or [self.nearest(word)]
        return done

    def fine(self, word: str) -> bool:
        """Whether the word is left alone."""
        return self._known(word) or word in self.language or not word.isalpha()

    def _known(self, word: str) -> bool:
        return word in self.known or stem(word) in self.stems

    def _pair(self, one: str, other: str) -> list[str] | None:
        """Two words with the space one letter too early or too late."""
        for left, right in ((one + other[:1], other[1:]), (one[:-1], one[-1:] + other)):
            if min(len(left), len(right)) > 1 and self._known(left) and self._known(right):
                return [left, right]
        return None

    def _split(self, word: str) -> list[str] | None:
        if self.nearest(word) != word:
            return None
        for at in range(2, len(word) - 1):
            if word[:at] in ("is", "it", "does", "can", "do", "the", "an", "used", "made", "in", "of"):
                rest = word[at:]
                if rest in self.known and (len(rest) > 2 or rest == "it"):
                    return [word[:at], rest]
        return None

    def _oddity(self, word: str, meant: str) -> int:
        """How seldom fingers slip so: letters swapped, one forgotten, one too many, another one; the first one."""
        if word[0] != meant[0] and sorted(word[:2]) != sorted(meant[:2]):
            return 4
        if sorted(word) == sorted(meant):
            return 0
        return 1 if len(meant) > len(word) else 2 if len(meant) < len(word) else 3

    def _nearest(self, word: str) -> str:
        if len(word) == 3:
            swapped = {word[1] + word[0] + word[2], word[0] + word[2] + word[1]} & self.known
            meant = swapped or self.longer.get(word, set())
            return next(iter(meant)) if len(meant) == 1 else word
        if len(word) < 4 or len(word) > 20:
            return word
        squeezed = "".join(letter for place, letter in enumerate(word) if letter not in word[max(0, place - 2) : place])
        allowed = 1 if len(word) < 7 else 2
        ranked = sorted(
            (count, self._oddity(word, candidate), candidate not in self.frequent, candidate)
            for candidate, count in self.near.to(word, allowed, 2).items()
            if count <= (1 if len(candidate) < 7 else 2)
        )
        if not ranked:
            return squeezed if squeezed in self.known else word
        best = [each for each in ranked if each[:3] == ranked[0][:3]]
        forms = {each[3].rstrip("s") for each in best}
        return best[0][3] if len(forms) == 1 else word
