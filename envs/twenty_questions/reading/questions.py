"""What a question asks about the object: one fact, several, or a comparison of sizes.

    core of the sentence -> comparison | cover of its words by phrases (`lexicon`) -> Meaning

A word that nothing explains leaves the question unanswered, with one exception: what is no instrument is no
percussion instrument either, and what has no tail has no bushy tail. Such a question is answered no where its known
part is false, and not at all elsewhere; so is one that asks whether something is all that is so ("only outdoors?").

A yes to "isn't it ...?" or "is it not ...?" could mean either, so these are not understood; "is it something that
is not ...?", "does it work without ...?" and the facts' own opposites are, as the contrary.
"""

from __future__ import annotations

import re

from envs.twenty_questions.meaning import Claim, Meaning, words_of
from envs.twenty_questions.reading import phrases
from envs.twenty_questions.reading.lexicon import UNANSWERABLE, Cover, Lexicon, Meant
from envs.twenty_questions.reading.sizes import Sizes
from envs.twenty_questions.reading.stems import stem
from envs.twenty_questions.table import Table


class Questions:
    def __init__(self, table: Table, lexicon: Lexicon, sizes: Sizes | None):
        self.table, self.lexicon, self.sizes = table, lexicon, sizes
        facts = table.facts
        self.kinds = {name for name, fact in facts.items() if fact.role == "kind"} | {
            each.name for each in table.attributes if any(re.match("is it an? ", ask) for ask in each.ask)
        }
        self.parts = {name for name, fact in facts.items() if fact.role == "part"}
        self.adjectives = {name for name, fact in facts.items() if fact.role == "colour" or name in phrases.ADJECTIVES}

    def read(self, core: str) -> Meaning | None:
        words = core.split()
        if words[0] in phrases.WH_WORDS or not self._about_it(words):
            return None
        if phrases.OPPOSED.search(core):
            return None  # "movable or immovable?"
        if self.sizes is not None and (comparison := self.sizes.comparison(core)) is not None:
            return Meaning(comparison=comparison)
        cover = self.lexicon.cover(words)
        if UNANSWERABLE in cover.found or not cover.spans:
            return None
        loose = self._loose(cover)
        denied = not phrases.DENIALS.isdisjoint(loose) or bool(phrases.DENYING.search(" ".join(loose)))
        if denied:
            rest, sure = self._denial(core)
            if not sure:
                return None
            cover = self.lexicon.cover(rest.split())
            loose = self._loose(cover)
            if not phrases.DENIALS.isdisjoint(loose) or not cover.spans or UNANSWERABLE in cover.found:
                return None
        if phrases.COMPARING & set(loose) or phrases.AS_AS.search(" ".join(loose)):
            return None
        if phrases.ACTS.search(core) and {name for name, _ in cover.found} & {"edible", "drink"}:
            return None
        return self._meaning(cover, core, loose, denied)

    def _loose(self, cover: Cover) -> list[str]:
        """The words outside of phrases."""
        inside = {place for span in cover.spans for place in range(span.start, span.end)} | set(cover.skipped)
        return [word for place, word in enumerate(cover.words) if place not in inside]

    def _about_it(self, words: list[str]) -> bool:
        """A question about the object, or a phrase that needs no subject ("made of wood?")."""
        if words[0] in ("are", "do", "have", "am", "were", "shall") and words[1:2] in (["you"], ["i"], ["we"]):
            return not phrases.OBJECT_WORDS.isdisjoint(words)
        if not phrases.SUBJECTS.isdisjoint(words) or (words[0] == "is" and words[1:2] in (["a"], ["an"])):
            return True
        if words[0] in phrases.AUXILIARIES:
            if words[0] == "has" and words[1:2] and words[1] in phrases.ARTICLES:
                return len(words) <= 5  # "has a screen?"
            bare = words[0] in ("has", "can", "could", "does") and words[1:2] and words[1] not in phrases.PERSONS
            return bool(bare) and len(words) <= 5
        return len(words) <= 8 and not (words[0] in phrases.TELLING and "is" in words)

    def _denial(self, core: str) -> tuple[str, bool]:
        """The core without its denial; and whether it could be meant in one way only."""
        rest, count = phrases.DENIED_THING.subn(r"\g<thing> ", core)
        return " ".join(rest.split()), count == 1

    # --- from phrases to a meaning ---

    def _meaning(self, cover: Cover, core: str, loose: list[str], denied: bool) -> Meaning | None:
        found = self._narrow(cover.found)
        if not phrases.ONLY.isdisjoint(loose):  # what is not so at all is not only so; more is not known
            plain = not denied and not any(contrary for _, contrary in found) and not cover.rest and "or" not in loose
            return Meaning(claim=Claim("all", tuple(found), known=False)) if plain else None
        if len(cover.found) > 1 and any(name == phrases.EATING for name, _ in cover.found):
            return None  # "does it eat leaves?" does not ask whether it has any
        if cover.rest:
            return self._narrowed(cover, core, loose, denied)
        if len(found) == 1:
            name, contrary = found[0]
            return None if contrary and denied else Meaning(attribute=name, negated=contrary != denied)
        if "or" in loose:
            return None if denied else self._either(cover, core)
        return self._together(cover, core, loose, denied)

    def _narrow(self, found: list[Meant]) -> list[Meant]:
        """Without what says little beside another fact: "does it grow under the ground?"."""
        return [meant for meant in found if self.table.facts[meant[0]].role != "wide"] or found

    def _narrowed(self, cover: Cover, core: str, loose: list[str], denied: bool) -> Meaning | None:
        """Something is said of the one kind or part that the words do not explain."""
        names = [name for name, contrary in cover.found if not contrary]
        if denied or "or" in loose or len(cover.found) != len(names) or not phrases.PLAIN_FRAME.match(core):
            return None
        for span in cover.spans:
            name, after = span.meant[0], cover.words[span.end : span.end + 1]
            named = (
                stem(cover.words[span.end - 1]) in map(stem, words_of(name)) or self.table.facts[name].role == "kind"
            )
            heads = (name in self.kinds and named) or (name in self.parts and phrases.HAVING.search(core))
            if heads and (not after or after[0] in phrases.AFTER_KIND):
                before = [place for place in cover.rest if place < span.start]
                if len(before) == len(cover.rest) or (after and after[0] in ("that", "which")):
                    return Meaning(claim=Claim("all", ((name, False),), known=False))
        return None

    def _either(self, cover: Cover, core: str) -> Meaning | None:
        """One of several; a choice between two contraries is no question to answer with yes."""
        names = [name for name, _ in cover.found]
        if len(set(names)) < len(names):
            return None
        if phrases.CHOICE.search(core) or sum(name in self.adjectives for name in names) > 1:
            return None
        if all(name in self.kinds for name in names) and phrases.TWO_KINDS.search(core):
            return None
        if any({one, other} in phrases.CONTRARIES for one in names for other in names):
            return None
        if len(names) == 2:
            return Meaning(claim=Claim("any", tuple(cover.found)))
        return Meaning(claim=Claim("agree", tuple(cover.found)))

    def _together(self, cover: Cover, core: str, loose: list[str], denied: bool) -> Meaning | None:
        found = self._narrow(cover.found)
        names = [name for name, _ in found]
        facts = self.table.facts
        if phrases.TWO_QUESTIONS.search(core):
            return None
        plain = not denied and not any(contrary for _, contrary in found)
        if plain:  # a carnivorous animal is a carnivore
            for name in sorted(names):
                may = facts[name].yes | facts[name].some
                if all(may & ~(facts[other].yes | facts[other].some) == 0 for other in names):
                    return Meaning(attribute=name)
        if len(found) == 2:
            kind = self._kind_of(cover)
            if kind is not None:
                other, contrary = next(meant for meant in found if meant[0] != kind)
                return Meaning(attribute=other, kind=kind, negated=contrary != denied)
        if denied:
            return None
        parts = [meant for meant in found if meant[0] in self.parts]
        if plain and len(parts) == 1 and all(name in self.adjectives for name in names if name != parts[0][0]):
            return Meaning(claim=Claim("part", (*(meant for meant in found if meant not in parts), *parts)))
        all_of_it = plain and ("and" in loose or all(name in self.adjectives for name in names))
        return Meaning(claim=Claim("all" if all_of_it else "agree", tuple(found)))

    def _kind_of(self, cover: Cover) -> str | None:
        """The kind of thing of "is it an animal that can fly?" and "is it a red fruit?"."""
        if cover.words[0] not in phrases.BEING:
            return None
        for span in cover.spans:
            after = cover.words[span.end] if span.end < len(cover.words) else ""
            if span.meant[0] in self.kinds and not span.meant[1] and after in phrases.AFTER_KIND:
                return span.meant[0]
        return None
