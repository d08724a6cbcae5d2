"""The cities and what is true of them, read from a TOML file.

A table that cannot be played honestly is refused when it is read: two cities may not share a
name, any two must differ in at least two facts, no city of a country has more people than the
one that is its largest, and what a city itself is known for may not hold a piece of its name.
What comes with the place (its country, its river) may: such an answer is withheld when the
time comes.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from itertools import combinations, permutations
from pathlib import Path

from envs.guess_my_city.names import NOWHERE, Giveaway, NameBook
from envs.guess_my_city.topics import topics
from envs.guess_my_city.wording import key_of, words_of

TABLES = Path(__file__).parent / "tables"
TROPIC = 23.4  # degrees
FEWEST_DIFFERENCES = 2

# topic -> key of the table; the first group is the country's unless a city says otherwise
SHARED = {
    "continent": "continents", "region": "regions", "language": "languages", "currency": "currencies",
    "religion": "religions", "sport": "sports",
}  # fmt: skip
OWN = {
    "province": "provinces", "river": "rivers", "sea": "seas", "climate": "climates", "landmark": "landmarks",
    "food": "foods", "fame": "fame",
}  # fmt: skip
CHOSEN = ("landmark", "food", "fame", "nickname")  # the author's choice: these may not give the name away
REQUIRED = ("climate", "landmark", "food", "fame")
CITY_FLAGS = ("capital", "largest", "island", "metro", "mountains", "snow", "hot")
DOUBTFUL = ("river", *CITY_FLAGS)
COUNTRY_FLAGS = ("eu", "landlocked", "left", "monarchy")
NUMBERS = {
    "latitude": (-90, 90), "longitude": (-180, 180), "altitude": (-500, 6000), "people": (0.001, 100),
    "founded": (-10000, 2100),
}  # fmt: skip
GAMES = {"summer_olympics": "summer", "winter_olympics": "winter"}


COUNTED = ("currency", "food", "fame")  # these are said in singular and plural


class TableError(ValueError):
    """A table that cannot be read or played; the message names the file and the entry."""


@dataclass(frozen=True, slots=True)
class City:
    key: str
    name: str
    facts: dict[str, tuple[str, ...]]  # list topic -> its values, as they are written
    truths: dict[str, frozenset[str]]  # list topic -> keys of its values, the wider ones too
    flags: frozenset[str]
    doubtful: frozenset[str]  # flags, and "river": whether it has them is a question that people would not agree on
    numbers: dict[str, float]  # population in people, altitude in metres, founded as a year
    olympics: tuple[int, ...]
    gives_away: Giveaway = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Atlas:
    source: str
    opening: str
    cities: dict[str, City]
    names: NameBook
    values: dict[str, dict[str, str]]  # topic -> key of a value that some city has -> as it is written
    words: dict[str, dict[tuple[str, ...], str]]  # topic -> words that people say -> key of a value


def table_path(table: str) -> Path:
    """The file of a table that ships with the game, or a path of the user's own."""
    if not isinstance(table, str):
        raise TableError(f"game option table={table!r} must be the name or the path of a table")
    own = TABLES / f"{table}.toml"
    if own.is_file():
        return own
    path = Path(table).expanduser()
    if path.is_file():
        return path
    known = ", ".join(sorted(file.stem for file in TABLES.glob("*.toml")))
    raise TableError(f"table {table!r} is neither a file nor one of: {known}")


def read_atlas(path: Path) -> Atlas:
    raw = _raw(path)
    if "base" in raw:
        raw = _on_base(path, raw)
    elif "take" in raw:
        raise TableError(f"table {path}: take is for a table with a base")
    return _Reader(str(path), raw).atlas()


def _raw(path: Path) -> dict:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"table {path}: not a TOML file: {error}") from None
    except OSError as error:
        raise TableError(f"table {path}: {error.strerror}") from None


def _on_base(path: Path, own: dict) -> dict:
    """A table that says `base` has what the table of that name has, unless it says it itself; of its cities those that
    it lists in `take`. The others get an honest no."""
    base, taken = _raw(table_path(own.pop("base"))), own.pop("take", [])
    if "base" in base:
        raise TableError(f"table {path}: its base has a base itself")
    for part in ("cities", "countries", "wider", "words", "elsewhere"):
        if not all(isinstance(each.get(part, {}), dict) for each in (base, own)):
            raise TableError(f"table {path}: {part} must be a section, here and in the base")
    cities = base.get("cities", {})
    for name in taken if isinstance(taken, list) else [taken]:
        if not isinstance(name, str) or name not in cities:
            raise TableError(f"table {path}: take has {name!r}, which is no city of its base")
    whole = {**base, **own, "cities": {name: cities[name] for name in taken} | own.get("cities", {})}
    for part in ("countries", "wider", "words"):
        whole[part] = base.get(part, {}) | own.get(part, {})
    elsewhere = base.get("elsewhere", {})
    others = [name for name in cities if name not in whole["cities"]]
    whole["elsewhere"] = own.get("elsewhere", elsewhere | {"cities": [*elsewhere.get("cities", []), *others]})
    return whole


def _other_number(words: str) -> str:
    return words[:-1] if words.endswith("s") else words + "s"


class _Reader:
    def __init__(self, source: str, raw: dict):
        self.source, self.raw = source, raw

    def error(self, message: str) -> TableError:
        return TableError(f"table {self.source}: {message}")

    def atlas(self) -> Atlas:
        self._known(self.raw, {"opening", "countries", "cities", "wider", "words", "elsewhere"}, "the table")
        opening = self.raw.get("opening", "I am thinking of a city.")
        if not isinstance(opening, str) or not opening.strip():
            raise self.error("opening must be a sentence")
        for section in ("countries", "cities"):
            if not isinstance(self.raw.get(section), dict) or not self.raw[section]:
                raise self.error(f"needs sections [{section}.NAME]")
        self.wider = {key_of(value): key_of(wide) for value, wide in self._texts("wider").items()}
        self.countries = {name: self._country(name, entry) for name, entry in self.raw["countries"].items()}
        self.names = NameBook()
        cities = {}
        for name, entry in self.raw["cities"].items():
            city = self._city(name, entry)
            cities[city.key] = city
        if len(cities) < 2:
            raise self.error("needs at least two cities")
        self._told_apart(cities.values())
        self._largest(cities.values())
        values, words = self._lexicon(cities.values())
        return Atlas(self.source, opening, cities, self.names, values, words)

    def _known(self, entry: object, keys: set[str], where: str) -> None:
        if not isinstance(entry, dict):
            raise self.error(f"{where} must be a section")
        unknown = sorted(set(entry) - keys)
        if unknown:
            raise self.error(f"{where} has unknown key {unknown[0]!r}")

    def _strings(self, value: object, where: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) and words_of(item) for item in value):
            raise self.error(f"{where} must be a list of words")
        return tuple(value)

    def _texts(self, section: str) -> dict[str, str]:
        entries = self.raw.get(section, {})
        if not isinstance(entries, dict) or not all(isinstance(text, str) for text in entries.values()):
            raise self.error(f"[{section}] must have a text for each entry")
        return entries

    def _flags(self, entry: dict, allowed: tuple[str, ...], where: str, key: str = "flags") -> frozenset[str]:
        flags = self._strings(entry.get(key, []), f"{key} of {where}")
        unknown = sorted(set(flags) - set(allowed))
        if unknown:
            raise self.error(f"{where} has unknown flag {unknown[0]!r}; there are: {', '.join(allowed)}")
        return frozenset(flags)

    def _country(self, name: str, entry: object) -> dict:
        where = f"country {name!r}"
        self._known(entry, {"also", "flags", *SHARED.values()}, where)
        read = {key: self._strings(entry.get(key, []), f"{key} of {where}") for key in ("also", *SHARED.values())}
        missing = [key for key in SHARED.values() if not read[key]]
        if missing:
            raise self.error(f"{where} has no {missing[0]}")
        return {**read, "flags": self._flags(entry, COUNTRY_FLAGS, where)}

    def _city(self, name: str, entry: object) -> City:
        where, key = f"city {name!r}", key_of(name)
        lists = {**SHARED, **OWN}
        self._known(
            entry,
            {"also", "country", "flags", "doubtful", "giveaways", "nickname", *lists.values(), *NUMBERS, *GAMES},
            where,
        )
        if entry.get("country") not in self.countries:
            raise self.error(f"{where} is in unknown country {entry.get('country')!r}")
        country = self.countries[entry["country"]]
        names = (name, *self._strings(entry.get("also", []), f"also of {where}"))
        for each in names:
            if not words_of(each):
                raise self.error(f"{where} has a name without words: {each!r}")
            other = self.names.add(each, key)
            if other is not None:
                raise self.error(f"{where} and city {other!r} share the name {each!r}")
        facts = {
            topic: self._strings(entry.get(field, country.get(field, ())) or [], f"{field} of {where}")
            if field in entry
            else country.get(field, ())
            for topic, field in lists.items()
        }
        for topic in REQUIRED:
            if not facts[topic]:
                raise self.error(f"{where} has no {OWN[topic]}")
        numbers = self._numbers(entry, where)
        facts["country"] = (entry["country"],)
        facts["nickname"] = self._strings([entry["nickname"]], f"nickname of {where}") if "nickname" in entry else ()
        facts["hemisphere"] = (
            "northern" if numbers["latitude"] >= 0 else "southern",
            "eastern" if numbers["longitude"] >= 0 else "western",
        )
        held = {season: entry.get(field, []) for field, season in GAMES.items()}
        if not all(isinstance(years, list) and all(type(year) is int for year in years) for years in held.values()):
            raise self.error(f"olympics of {where} must be lists of years")
        facts["olympics"] = tuple(season for season, years in held.items() if years)
        flags = self._flags(entry, CITY_FLAGS + COUNTRY_FLAGS, where) | country["flags"]
        doubtful = self._flags(entry, DOUBTFUL, where, "doubtful")
        if sure := sorted(doubtful & flags):
            raise self.error(f"{where} has {sure[0]!r} among its flags and among what is doubtful")
        if abs(numbers["latitude"]) < TROPIC:
            flags |= {"tropics"}
        gives_away = Giveaway(names, self._strings(entry.get("giveaways", []), f"giveaways of {where}"))
        for topic in CHOSEN:
            for value in facts[topic]:
                if gives_away(value):
                    raise self.error(f"{topic} {value!r} of {where} gives its name away")
        after = {words_of(each) for each in (entry["country"], *country["also"], *facts["province"])}
        self.names.places[key] = frozenset(after | {words[1:] for words in after if words[0] == "the"})
        return City(
            key=key,
            name=name,
            facts=facts,
            truths={topic: self._widened(values) for topic, values in facts.items()},
            flags=flags,
            doubtful=doubtful,
            numbers={
                "population": numbers["people"] * 1e6,
                "altitude": numbers["altitude"],
                "founded": numbers["founded"],
                "latitude": numbers["latitude"],
                "longitude": numbers["longitude"],
            },
            olympics=tuple(sorted(year for years in held.values() for year in years)),
            gives_away=gives_away,
        )

    def _numbers(self, entry: dict, where: str) -> dict[str, float]:
        for key, (low, high) in NUMBERS.items():
            value = entry.get(key)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise self.error(f"{key} of {where} must be a number from {low} to {high}")
        return {key: float(entry[key]) for key in NUMBERS}

    def _widened(self, values: tuple[str, ...]) -> frozenset[str]:
        keys = {key_of(value) for value in values}
        return frozenset(keys | {self.wider[key] for key in keys if key in self.wider})

    def _told_apart(self, cities) -> None:
        for one, other in combinations(cities, 2):
            differences = sum(one.facts[topic] != other.facts[topic] for topic in one.facts)
            differences += len(one.flags ^ other.flags)
            if differences < FEWEST_DIFFERENCES:
                raise self.error(
                    f"fewer than {FEWEST_DIFFERENCES} facts tell city {one.name!r} from city {other.name!r}"
                )

    def _largest(self, cities) -> None:
        for one, other in permutations(cities, 2):
            alike = one.facts["country"] == other.facts["country"]
            if alike and "largest" in one.flags and other.numbers["population"] > one.numbers["population"]:
                raise self.error(f"city {one.name!r} is no largest city: {other.name!r} has more people")

    def _lexicon(self, cities) -> tuple[dict[str, dict[str, str]], dict[str, dict[tuple[str, ...], str]]]:
        """Values that some city has, and all the words for values: those, their wider ones, and foreign ones."""
        lists = {**SHARED, **OWN, "country": "countries", "nickname": "nicknames"}
        synonyms = {key_of(value): self._strings(said, f"words of {value!r}") for value, said in self._words().items()}
        elsewhere = self.raw.get("elsewhere", {})
        self._known(elsewhere, {"cities", *lists.values()}, "[elsewhere]")
        values, words = {}, {}
        for topic in (name for name, topic in topics().items() if topic.kind == "list"):
            values[topic] = {key_of(value): value for city in cities for value in city.facts.get(topic, ())}
            written = {key_of(wide): wide for wide in self._texts("wider").values()}
            narrow = [key for key in values[topic] if key in self.wider]
            values[topic] |= {self.wider[key]: written[self.wider[key]] for key in narrow}
            said = words[topic] = {}
            for value in self._strings(elsewhere.get(lists.get(topic, ""), []), f"{topic} of [elsewhere]"):
                said[words_of(key_of(value))] = key_of(value)
            for key in values[topic]:
                for each in (key, *synonyms.get(key, ())):
                    said[words_of(key_of(each))] = key
                    if topic in COUNTED:
                        said.setdefault(words_of(_other_number(key_of(each))), key)
        for name, country in self.countries.items():
            for each in (name, *country["also"]):
                words["country"][words_of(key_of(each))] = key_of(name)
        for name in self._strings(elsewhere.get("cities", []), "cities of [elsewhere]"):
            if words_of(name) not in self.names.cities:
                self.names.add(name, NOWHERE)
        return values, words

    def _words(self) -> dict:
        entries = self.raw.get("words", {})
        if not isinstance(entries, dict):
            raise self.error("[words] must be a section")
        return entries
