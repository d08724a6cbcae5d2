"""What people ask about that is one place's own or not: sights, memberships, animals, dishes, ...

A line of the tables:   "la liga; spanish league" = "Madrid, Barcelona, Seville, ~Buenos Aires"

    phrases, each of which says the same              names for which it is true, in order:
        City, @Country (with all its cities)              true;   ~ before it: people would not agree
        $first phrase of an earlier line, * (all)         -  before it: not true after all
    [now]   only of the present: "was it a monarchy?" asks something else;   [ever]   the tense does not matter

What is not named is not so. Of a place that the tables of this folder do not list, nothing is known.
A line that repeats an earlier phrase takes it over.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envs.guess_my_city.lore.words import stems
from envs.guess_my_city.wording import key_of, words_of

FOLDER = Path(__file__).parent
TABLES = ("states", "sights", "life", "living")
YES, MAYBE, NO = "yes", "maybe", "no"
BORDERING = (
    "border", "border on", "border with", "share border with", "share land border with", "border to", "frontier with",
    "neighbor of", "neighbor", "next to", "adjoin", "touch", "common border with", "neighboring country of",
    "frontier to", "direct border with", "land border with", "share frontier with", "country border",
)  # fmt: skip
STATUS = {"~": MAYBE, "-": NO}


@lru_cache(maxsize=1)
def listed() -> tuple[frozenset[str], frozenset[str]]:
    """Keys of the cities and of the countries of which the tables speak."""
    cities, countries = (frozenset(key_of(row["name"]) for row in _rows(name)) for name in ("cities", "countries"))
    return cities, countries


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="|"))


@dataclass(frozen=True, slots=True)
class Thing:
    key: str  # its first phrase
    lasting: bool  # true in any tense
    cities: dict[str, str]  # key of a city -> yes or maybe
    countries: dict[str, str]

    def of(self, city: str, country: str, of_country: bool) -> str:
        known, said, place = (
            listed()[of_country],
            self.countries if of_country else self.cities,
            (city, country)[of_country],
        )
        return said.get(place, NO if place in known else MAYBE)


class Things:
    """The things, and their phrases as stems."""

    def __init__(self, countries: dict[str, str], named: dict[tuple[str, ...], str]):
        """`countries`: key of each known city -> key of its country; `named`: words for a country -> its key."""
        self.countries, self.named = countries, named
        self.things: dict[str, Thing] = {}
        self.phrases: dict[tuple[str, ...], str] = {}  # stems -> key of a thing
        self.words: set[str] = set()  # of the phrases, as they are written
        self.said: dict[str, str] = {}  # phrases of the tables -> key of a thing
        for table in TABLES:
            for tense, lines in tomllib.loads((FOLDER / f"{table}.toml").read_text(encoding="utf-8")).items():
                for said, places in lines.items():
                    key = self._add(phrases := [each.strip() for each in said.split(";")], places, tense == "ever")
                    self.said |= dict.fromkeys(phrases, key)
        self._flags_and_borders()
        self.longest = max(map(len, self.phrases))

    def _flags_and_borders(self) -> None:
        """From the table of countries: "flag red", "border china"."""
        rows = _rows("countries")
        colors: dict[str, list[str]] = {}
        borders: dict[str, list[str]] = {}
        for row in rows:
            for color in row["flag"].split(","):
                colors.setdefault(color, []).append(row["name"])
            for other in filter(None, row["neighbours"].split(",")):
                borders.setdefault(other, []).append(row["name"])
        for color, names in colors.items():
            self._add([f"flag {color}"], ", ".join(f"@{name}" for name in names), True)
        spoken: dict[str, set[str]] = {}
        for words, key in self.named.items():
            spoken.setdefault(key, set()).add(" ".join(words))
        for row in rows:
            places = spoken.get(key_of(row["name"]), set()) | {" ".join(words_of(row["name"]))}
            capital = row["capital"] if key_of(row["capital"]) in self.countries else "-*"
            self._add([f"capital of {each}" for each in sorted(places)], capital, False)
        for name in {*borders, *(row["name"] for row in rows)}:
            said = spoken.get(key_of(name), {" ".join(words_of(name))})
            phrases = [f"{way} {each}" for each in sorted(said) for way in BORDERING]
            doubtful = [f"~@{name}"] if key_of(name) in self.countries.values() else []
            places = ", ".join([f"@{other}" for other in borders.get(name, ())] + doubtful)
            if places:
                self._add(phrases, places, True)

    def _add(self, said: list[str], places: str, lasting: bool) -> str:
        key = said[0] if said[0] not in self.things else f"{said[0]} {len(self.things)}"
        cities, nations = self._placed(part.strip() for part in places.split(","))
        self.things[key] = Thing(key, lasting, cities, nations)
        for phrase in said:
            words = words_of(phrase)
            self.words.update(words)
            self.phrases[stems(words)] = key
        return key

    def _placed(self, parts: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
        cities: dict[str, str] = {}
        nations: dict[str, str] = {}
        for part in parts:
            status = STATUS.get(part[:1], YES)
            name = part[1:] if part[:1] in STATUS else part
            if name == "*":
                within, lands = dict.fromkeys(self.countries, status), dict.fromkeys(self.countries.values(), status)
            elif name[:1] == "$":
                group = self.things[name[1:]]
                within = {each: said if status == YES else status for each, said in group.cities.items()}
                lands = {each: said if status == YES else status for each, said in group.countries.items()}
            elif name[:1] == "@":
                country = self.named.get(words_of(key_of(name[1:])), key_of(name[1:]))
                lands = {country: status}
                within = {each: status for each, where in self.countries.items() if where == country}
            else:
                self._city(key_of(name), status, cities, nations)
                continue
            doubtful = status == MAYBE  # of what nothing has been said before
            cities |= {each: said for each, said in within.items() if not doubtful or each not in cities}
            nations |= {each: said for each, said in lands.items() if not doubtful or each not in nations}
        return cities, nations

    def _city(self, city: str, status: str, cities: dict[str, str], nations: dict[str, str]) -> None:
        cities[city] = status
        country = self.countries.get(city)
        if country and status != NO and nations.get(country, NO) != YES:
            nations[country] = status
