"""Questions understood by their words.

A question is about a topic if the topic explains every one of its words: as a cue or a value
of that topic, as a number, or as a small word that carries nothing ("is", "it", "the"). If
several topics do, the one that explains most by its own words is meant. It asks one thing:
two values, or a word that nothing explains ("not", "outside"), make it no question of these rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envs.guess_my_city.atlas import Atlas
from envs.guess_my_city.topics import Meaning, Topic, preset_meaning, topics
from envs.guess_my_city.wording import number_at, word_set, words_of

PRESENT = 2025  # the year from which ages are counted
FOOT = 0.3048  # metres
UNITLESS_PEOPLE = 10_000  # "bigger than a million" can only mean people

_SMALL = (
    "respective well famous specific notable significant global globally currently presently predominantly "
    "overall considered experience experiences feature features offer offers boast boasts various widely wide "
    "especially particularly visitors home during regarding terms time times who hometown a an the is it its are "
    "was were be been being am do does did has have had having can could will would shall should may might must i "
    "me my you your yours we us our they them their theirs he she his her this that these those there here in on "
    "at of to for from by with within into onto as and or so then also just really actually now city citys town "
    "place location one ones thing things kind kinds sort sorts type types some any something anything somewhere "
    "someone find located situated lie lies lying sit sits stand stands set get gets got go going fly travel "
    "visit see think thinking thought talk about ask know tell say said let lets please ok okay hmm hi hello "
    "guess wonder wondering mind if whether perhaps maybe likely probably question answer people person folks "
    "locals local residents what whats which how when where why called name named right correct generally "
    "typically usually mainly mostly main most primary chief major principal common commonly own particular given "
    "certain very quite rather pretty ever still today nowadays out down need want again part parts give describe "
    "mention exactly roughly approximately call"
)
SMALL = word_set(_SMALL)
ASKING = word_set("what whats which where whereabouts how when why name tell describe give")
OPENERS = word_set("what whats which how when where why")
_AUXILIARIES = (
    "is are was were do does did has have had can could will would may might should must am it its so then and ok"
)
AUXILIARIES = word_set(_AUXILIARIES)
WEIGHTY = word_set("of in on at from near with by for most least")  # what follows these cannot be left out
COUNTED = word_set("many much far often long")  # "how many rivers" is no question about which
REQUESTS = word_set("tell say name give describe know mention")
_MORE = (
    "more than", "over", "above", "at least", "greater than", "bigger than", "larger than", "higher than", "exceed",
    "exceeds", "exceeding", "upwards of", "in excess of", "or more", "taller than", "beyond", "as many as",
    "a minimum of",
)  # fmt: skip
_LESS = (
    "less than", "fewer than", "under", "below", "smaller than", "lower than", "at most", "up to", "or less",
    "or fewer", "short of", "a maximum of",
)  # fmt: skip
BOUNDS: dict[tuple[str, ...], str] = {tuple(each.split()): ">" for each in _MORE}
BOUNDS |= {tuple(each.split()): "<" for each in _LESS}
BOUNDS |= {("between",): ":", ("from",): ":", ("older", "than"): "older", ("younger", "than"): "younger"}
YEARS = {("before",): "<", ("after",): ">", ("since",): ">", ("prior", "to"): "<", ("earlier", "than"): "<"}
YEARS |= {("later", "than"): ">", ("in", "the", "last"): "younger", ("within", "the", "last"): "younger"}
YEARS |= {("newer", "than"): "younger"}
LONGEST_PHRASE = 7  # words


@dataclass(slots=True)
class Reading:
    """How one topic explains an utterance."""

    own: int = 0  # words that its cues, values and presets explain
    along: int = 0  # words that go along with them
    cued: bool = False
    values: set[str] = field(default_factory=set)
    presets: set[str] = field(default_factory=set)
    numbers: list[tuple[float, str]] = field(default_factory=list)  # and the word after each
    bounds: list[str] = field(default_factory=list)
    unknown: int = 0  # words that mean nothing here


class Rules:
    def __init__(self, atlas: Atlas):
        self.topics = topics()
        self.phrases: dict[str, dict[tuple[str, ...], tuple[str, str]]] = {}
        self.owners: dict[tuple[str, ...], set[str]] = {}  # strong phrase -> topics
        for name, topic in self.topics.items():
            phrases = {words_of(weak): ("weak", "") for weak in topic.weak}
            phrases |= {words_of(cue): ("cue", "") for cue in topic.cues}
            phrases |= {words: ("value", key) for words, key in atlas.words.get(name, {}).items()}
            phrases |= {words_of(said): ("preset", ask) for said, ask in topic.presets.items()}
            self.phrases[name] = phrases
            for words, (kind, _) in phrases.items():
                if kind != "weak":
                    self.owners.setdefault(words, set()).add(name)
        self.numeric = [name for name, topic in self.topics.items() if topic.kind == "number"]

    def understand(self, words: tuple[str, ...], spare: int = 0) -> Meaning | None:
        """`spare` words may go unexplained; the topic that leaves fewest of them is meant."""
        found = []
        for name in self.candidates(words):
            reading = self._explain(self.topics[name], words, spare)
            meaning = reading and self._meaning(self.topics[name], reading, words)
            if meaning is not None:
                found.append((-reading.unknown, reading.own, reading.along, meaning))
        return max(found, key=lambda each: each[:3])[3] if found else None  # of equals the first

    def candidates(self, words: tuple[str, ...]) -> list[str]:
        """Topics that own some of the words, in the topics' order."""
        owners: set[str] = set()
        for place in range(len(words)):
            for length in range(1, min(LONGEST_PHRASE, len(words) - place) + 1):
                owners |= self.owners.get(words[place : place + length], set())
        if any(number_at(words, place) for place in range(len(words))):
            owners.update(self.numeric)
        return [name for name in self.topics if name in owners]

    def foreign(self, topic: str, words: tuple[str, ...]) -> bool:
        """Whether some words are another topic's own and mean nothing in this one."""
        place = 0
        while place < len(words):
            parts = [words[place : place + length] for length in range(LONGEST_PHRASE, 0, -1)]
            owned = next((part for part in parts if part in self.phrases[topic]), None)
            if owned is None and any(part in self.owners for part in parts) and words[place] not in SMALL:
                return True
            place += len(owned) if owned else 1
        return False

    def values_in(self, topic: str, words: tuple[str, ...]) -> set[str]:
        """Keys of the topic's values among the words, whatever else is said."""
        found, place = set(), 0
        while place < len(words):
            for length in range(min(LONGEST_PHRASE, len(words) - place), 0, -1):
                kind, value = self.phrases[topic].get(words[place : place + length], ("", ""))
                if kind == "value":
                    found.add(value)
                    place += length
                    break
            else:
                place += 1
        return found

    def _explain(self, topic: Topic, words: tuple[str, ...], spare: int) -> Reading | None:
        phrases, reading, place = self.phrases[topic.name], Reading(), 0
        numeric = topic.kind == "number"
        bounds = (BOUNDS | YEARS if topic.name == "founded" else BOUNDS) if numeric else {}
        while place < len(words):
            number = number_at(words, place) if numeric else None
            if number is not None and number[0] == number[0]:
                place += number[1]
                following = words[place] if place < len(words) else ""
                reading.numbers.append((number[0], following))
                place += following in ("m", "ft", "feet", "foot")
                continue
            for length in range(min(LONGEST_PHRASE, len(words) - place), 0, -1):
                part = words[place : place + length]
                kind, value = phrases.get(part, ("", ""))
                if kind or part in bounds:
                    break
            else:
                if words[place] not in SMALL:
                    reading.unknown += 1
                    before = [word for word in words[max(0, place - 2) : place] if word != "the"]
                    if reading.unknown > spare or before and before[-1] in WEIGHTY:
                        return None
                place += 1
                continue
            if kind == "weak":
                reading.along += length
            elif kind:
                reading.own += length
                reading.cued |= kind == "cue"
                if kind != "cue":
                    (reading.values if kind == "value" else reading.presets).add(value)
            if part in bounds:
                reading.bounds.append(bounds[part])
            place += length
        return reading

    def _meaning(self, topic: Topic, reading: Reading, words: tuple[str, ...]) -> Meaning | None:
        if reading.numbers or (reading.bounds and not reading.presets):
            return self._bounded(topic, reading)
        if len(reading.values) + len(reading.presets) > 1:
            return None
        if reading.values:  # "which bridges are there" asks no yes or no
            return None if words[0] in OPENERS else Meaning(topic.name, value=next(iter(reading.values)))
        if reading.presets:  # nor does "which ancient people founded it"
            if words[0] in OPENERS:
                return None
            return preset_meaning(topic.name, next(iter(reading.presets)))
        return self.bare(topic, words) if reading.cued else None

    def bare(self, topic: Topic, words: tuple[str, ...]) -> Meaning | None:
        """A question that names the topic and nothing else of it."""
        asked = is_open(words)
        if topic.kind == "list" and "how" in words and COUNTED.intersection(words):
            return None
        if topic.kind == "flag":
            return Meaning(topic.name) if asked and topic.open else None if asked else Meaning(topic.name, value="yes")
        if asked or topic.exists:
            return Meaning(topic.name)
        return Meaning(topic.name, value="yes") if topic.some else None

    def _bounded(self, topic: Topic, reading: Reading) -> Meaning | None:
        numbers, bounds = reading.numbers, set(reading.bounds)
        if topic.kind != "number" or reading.values or reading.presets - {">1800"} or not 1 <= len(numbers) <= 2:
            return None
        feet = any(after in ("feet", "ft", "foot") for _, after in numbers)
        metres = feet or any(after in ("m", "metres", "meters", "metre", "meter") for _, after in numbers)
        aged = any(after in ("years", "year") for _, after in numbers) or bool(bounds & {"older", "younger"})
        amounts = [number for number, _ in numbers]
        if topic.name == "population":
            amounts = [number * (1e6 if after == "m" and number < 100 else 1) for number, after in numbers]
            metres = metres and not any(after == "m" and number < 100 for number, after in numbers)
            if len(amounts) == 2 and amounts[0] < 1000 <= amounts[1]:  # "between 1 and 5 million"
                amounts[0] *= 1e6 if amounts[1] >= 1e6 else 1e3
            if (
                not (reading.cued or reading.along or max(amounts) >= UNITLESS_PEOPLE)
                or min(amounts) < 100
                or aged
                or metres
            ):
                return None
        elif topic.name == "altitude":
            if not (reading.cued or metres):
                return None
            amounts = [number * (FOOT if feet else 1) for number in amounts]
        else:
            if metres or not (reading.cued or aged or reading.along):
                return None
            if aged:
                amounts = [PRESENT - number for number in amounts]
                turned = {">": "<", "older": "<", "<": ">", "younger": ">"}
                bounds = {turned.get(bound, bound) for bound in bounds}
        if len(amounts) == 2:
            return Meaning(topic.name, low=min(amounts), high=max(amounts)) if bounds == {":"} else None
        if bounds == {">"}:
            return Meaning(topic.name, low=amounts[0])
        return Meaning(topic.name, high=amounts[0]) if bounds == {"<"} else None


def is_open(words: tuple[str, ...]) -> bool:
    """Asks for something rather than for yes or no."""
    if words[0] in AUXILIARIES and not REQUESTS.intersection(words):
        return False
    return bool(ASKING.intersection(words))
