"""Answers to open questions, in words of the tables. What the tables do not have is not told."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from envs.guess_my_city.atlas import City
from envs.guess_my_city.lore.reader import asked
from envs.guess_my_city.wording import join_values, key_of

FOLDER = Path(__file__).parent
LISTED = 3  # values of one answer
WARMTH = (
    (-12, "freezing and very cold"), (1, "freezing and cold"), (7, "cold and cool"), (14, "cool and mild"),
    (20, "mild and warm"), (26, "warm"), (31, "hot"), (99, "very hot"),
)  # fmt: skip
WETNESS = (
    (150, "hot desert and hardly rains"), (400, "dry and seldom rains"), (1000, "rains now and then"), (9999,
    "rains often"),
)  # fmt: skip
DISTANCES = (
    (5, "It lies on the coast."), (60, "The sea is not far, less than 60 km."), (150, "The sea is about 100 km away."),
    (9999, "It lies far inland, hundreds of km from the sea."),
)  # fmt: skip
PEOPLE = (
    (1, "less than one million"), (5, "one to five million"), (20, "five to twenty million"),
    (60, "more than twenty million"),
    (150, "about one hundred million"), (500, "several hundred million"), (9999, "more than one thousand million"),
)  # fmt: skip
CLIMATES = {
    "tropical": "tropical, warm and humid", "desert": "hot desert, dry",
    "mediterranean": "mediterranean, warm and dry, mild",
    "oceanic": "oceanic, mild and cool, rainy", "continental": "continental, cold and warm",
    "subarctic": "subarctic, cold and cool",
    "subtropical": "subtropical, hot and humid, mild", "highland": "highland, mild and cool",
}  # fmt: skip
AGES = (
    (1000, "between one and two thousand years old"), (1500, "between five hundred and a thousand years old"),
    (1800, "between two and five hundred years old"), (9999, "not older than about two hundred years"),
)  # fmt: skip
SHORE = 15  # metres
WIDER = {  # what is as true: of the same thing in other words, or of what is spoken beside it in these cities
    "religion": {"Catholicism": "Christianity", "Protestantism": "Christianity", "folk religion": "Taoism"},
    "sea": {
        "the Adriatic Sea": "the Mediterranean", "the Tyrrhenian Sea": "the Mediterranean",
        "the Aegean Sea": "the Mediterranean",
        "the Arabian Sea": "the Indian Ocean", "the Java Sea": "the Pacific", "the South China Sea": "the Pacific",
        "the East China Sea": "the Pacific", "the Persian Gulf": "the Indian Ocean",
        "the Gulf of Mexico": "the Atlantic",
        "the Caribbean Sea": "the Atlantic", "the Tasman Sea": "the Pacific", "Bass Strait": "the Southern Ocean",
        "the Irish Sea": "the Atlantic", "the Sea of Marmara": "the Mediterranean",
    },
    "language": {
        "Mandarin": "Chinese", "Cantonese": "Chinese", "Wu": "Chinese", "Taiwanese": "Chinese", "Tagalog": "Filipino",
        "Persian": "Farsi", "Dari": "Persian", "Twi": "English", "Yoruba": "English", "Luganda": "English",
        "Swahili": "English",
        "Wolof": "French", "Lingala": "French",
    },
}  # fmt: skip
TOLD_WIDER = {"religion": "Most people there follow {}.", "sea": "It lies on {}.", "language": "People there speak {}."}
CENTURIES = {16: "seventeenth", 17: "eighteenth", 18: "nineteenth", 19: "twentieth"}
SEASONS = (
    "June, July and August, and summer in December, January and February",
    "December, January and February, and summer in June, July and August",
)
TROPICS = 12  # degrees from the equator within which there is no winter


def _table(name: str) -> dict[str, dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return {key_of(row["name"]): row for row in csv.DictReader(file, delimiter="|")}


class Told:
    def __init__(self, named: dict[tuple[str, ...], str]):
        self.cities, self.countries, self.named = _table("cities"), _table("countries"), named

    def answer(self, topic: str, city: City) -> str | None:
        entry = asked().get(topic, {})
        own, nation = self.cities.get(city.key), self.countries.get(key_of(city.facts["country"][0]))
        if own is None or nation is None:
            return None
        if topic == "capital_city":
            return entry["own"] if key_of(nation["capital"]) == city.key else entry["told"].format(nation["capital"])
        if topic == "neighbours":
            names = [name for name in nation["neighbours"].split(",") if name][:LISTED]
            return " ".join(entry["told"].format(name) for name in names) or entry["none"]
        if topic == "since":
            year = nation["since"]
            return entry["told"].format(f"{CENTURIES[int(year) // 100]} century, in {year}") if year else entry["none"]
        if topic == "ruled_by":
            return entry["told"].format(nation[topic]) if nation[topic] else entry["none"]
        if topic == "inhabitants":
            return f"Its country has {_band(float(nation['people']), PEOPLE)} people."
        if topic in ("flag", "script", "plants", "crops", "animals"):
            value = " and ".join(map(str.strip, nation[topic].split(",")))
            return entry["told"].format(value) if value else None
        value = self._own(topic, own, city)
        return entry["told"].format(value) if value else None

    def more(self, topic: str, city: City) -> str | None:
        """The answer of `speech.toml` to an open question, with more in it."""
        own = self.cities.get(city.key)
        if own is None:
            return None
        if topic == "climate":
            return (
                f"The type of climate is {CLIMATES[city.facts['climate'][0]]} ."
                if city.facts["climate"][0] in CLIMATES
                else None
            )
        if topic == "altitude":
            metres = city.numbers["altitude"]
            return (
                "It lies at about sea level."
                if metres < SHORE
                else f"It lies about {_rounded(metres)} metres above the sea."
            )
        if topic == "population":
            return f"It has {_people(city.numbers['population'])}."
        if topic == "founded":
            return _since(city.numbers["founded"])
        if topic == "region":
            return f"It is in {join_values((*city.facts['region'], *city.facts['continent']))}."
        wider = dict.fromkeys(WIDER[topic][each] for each in city.facts.get(topic, ()) if each in WIDER.get(topic, {}))
        if wider:
            return TOLD_WIDER[topic].format(join_values((*city.facts[topic], *wider)))
        extra = own.get(f"more_{topic}")
        if not extra:
            return None
        listed = " and ".join((*city.facts[topic], extra))
        return {
            "landmark": f"You can see {listed} there.",
            "food": f"Typical food there is {listed} .",
        }.get(topic)

    def says(self, topic: str, value: str, city: City) -> bool:
        """Whether the value is among what people would add to the city's own landmarks, dishes or fame."""
        more = self.cities.get(city.key, {}).get(f"more_{topic}") or ""
        return bool(re.search(rf"\b{re.escape(value)}\b", more.lower()))

    def _own(self, topic: str, own: dict[str, str], city: City) -> str | None:
        january, july = map(float, own["january_july"].split(","))
        months = {"coldest": min(january, july), "hottest": max(january, july), "january": january, "july": july}
        latitude = city.numbers["latitude"]
        if topic in months:
            return f"{_band(months[topic], WARMTH)}, about {_five(months[topic])} degrees"
        if topic == "temperature":
            mean = (january + july) / 2
            return f"{_band(mean, WARMTH)}, about {_five(mean)} degrees"
        if topic == "rain":
            return _band(float(own["rain"]), WETNESS)
        if topic == "seasons":
            return None if abs(latitude) < TROPICS else SEASONS[latitude > 0]
        if topic == "sea_km":
            return _band(float(own["sea_km"]), DISTANCES)
        if topic == "latitude":
            side = "north" if latitude > 0 else "south"
            return f"close to and {side}" if abs(latitude) < 2 else f"about {_five(abs(latitude))} degrees {side}"
        if topic == "utc":
            hours = own["utc"]
            return hours if hours.startswith("-") else f"+{hours}"
        if topic == "head":
            return self._head(city)
        if topic == "terrain":
            return _terrain(city)
        if topic == "waters":
            return own["water"] or " and ".join(city.facts["sea"]) or None
        return own.get({"mountains": "mountains"}.get(topic, topic)) or None

    def _head(self, city: City) -> str:
        if "monarchy" in city.flags:
            special = {
                "japan": "An emperor",
                "kuwait": "An emir",
                "qatar": "An emir",
                "united arab emirates": "An emir",
            }
            return special.get(key_of(city.facts["country"][0]), "A king or a grand duke")
        return "A president"


def tellable() -> list[str]:
    return [topic for topic, entry in asked().items() if "told" in entry] + ["inhabitants"]


def _terrain(city: City) -> str:
    land = ["mountains and hills"] if "mountains" in city.flags else ["plains, which are flat"]
    land += ["a desert"] if "desert" in city.facts["climate"] else []
    return " and ".join([*land, *(["a coast"] if city.facts["sea"] else [])])


def _people(number: float) -> str:
    """To millions; below two millions to tenths of one, below one to hundred thousands."""
    if number < 9.5e5:
        return f"less than one million people, about {max(1, round(number / 1e5))}00 thousand"
    return f"about {number / 1e6:.{1 if number < 2e6 else 0}f} million people"


def _since(year: float) -> str:
    if year < 1:
        return "It was founded before Christ and is ancient, more than two thousand years old."
    about = round(year / 50) * 50 if year < 1000 else round(year)
    age = next(said for below, said in AGES if year < below)
    return f"It was founded about the year {about}, in the {_ordinal(int(year) // 100 + 1)} century, and is {age}."


def _ordinal(number: int) -> str:
    return f"{number}{'th' if 10 < number < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _rounded(metres: float) -> str:
    """To hundreds, to tens below one hundred."""
    return str(round(metres / 100) * 100) if metres >= 100 else str(round(metres / 10) * 10)


def _band(number: float, bands: tuple[tuple[float, str], ...]) -> str:
    return next(said for below, said in bands if number < below)


def _five(number: float) -> int:
    return round(number / 5) * 5
