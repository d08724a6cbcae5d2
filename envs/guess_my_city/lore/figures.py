"""Figures of places, and questions that compare them: "farther north than Rome?", "within 500 km of Paris?".

Every figure of the city is compared with a number or with the same figure of another place. Where the two are so close
that people would not agree, there is no answer.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import asin, cos, radians, sin, sqrt
from pathlib import Path

from envs.guess_my_city.atlas import City
from envs.guess_my_city.topics import Meaning
from envs.guess_my_city.wording import key_of, number_at, words_of

FOLDER = Path(__file__).parent
EARTH = 6371.0  # km
NEAR, FAR = 120.0, 500.0  # km: certainly near, certainly not
# figure -> half width of the doubtful range: a share of the number, and an amount
MARGINS = {
    "latitude": (0, 0.4), "longitude": (0, 0.7), "people": (0.08, 0), "founded": (0, 40), "altitude": (0.06, 10),
    "january": (0, 2), "july": (0, 2), "coldest": (0, 2), "hottest": (0, 2), "mean": (0, 1.5), "rain": (0.15, 0),
    "area": (0.06, 0), "inhabitants": (0.05, 0), "equator": (0, 1), "utc": (0, 0.4), "hours": (0, 0.4),
}  # fmt: skip
_WAYS = {"north": ("latitude", 1), "south": ("latitude", -1), "east": ("longitude", 1), "west": ("longitude", -1)}
_MORE = (
    "more than|over|above|at least|greater than|bigger than|larger than|higher than|exceed|exceeds|exceeding|beyond|"
    "warmer than|hotter than|north of"
)
_LESS = "less than|fewer than|under|below|smaller than|lower than|at most|colder than|cooler than"
_ORDINALS = {
    word: number
    for number, word in enumerate(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
            "thirteenth",
            "fourteenth",
            "fifteenth",
            "sixteenth",
            "seventeenth",
            "eighteenth",
            "nineteenth",
            "twentieth",
        ],
        start=1,
    )
} | {"twenty first": 21}


@dataclass(frozen=True, slots=True)
class Place:
    figures: dict[str, float]
    extent: tuple[float, float, float, float] | None = None  # south, north, west, east


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="|")


def _temperatures(said: str) -> dict[str, float]:
    january, july = map(float, said.split(","))
    return {
        "january": january, "july": july, "coldest": min(january, july), "hottest": max(january, july),
        "mean": (january + july) / 2,
    }  # fmt: skip


class Figures:
    def __init__(self, cities: dict[str, City], named: dict[tuple[str, ...], str]):
        self.cities: dict[str, Place] = {}
        self.held = {key: city.olympics for key, city in cities.items()}
        own = {key_of(row["name"]): row for row in _rows("cities")}
        nations = {key_of(row["name"]): row for row in _rows("countries")}
        self.places: dict[tuple[str, ...], Place] = {}  # that others are compared with
        for key, city in cities.items():
            found = {"people": city.numbers["population"] / 1e6, "altitude": city.numbers["altitude"]}
            found |= {"founded": city.numbers["founded"]}
            found |= {"latitude": city.numbers["latitude"], "longitude": city.numbers["longitude"]}
            found["equator"] = abs(found["latitude"])
            if key in own:
                row = own[key]
                found |= _temperatures(row["january_july"])
                found |= {"rain": float(row["rain"]), "utc": float(row["utc"]), "hours": abs(float(row["utc"]))}
            nation = nations.get(key_of(city.facts["country"][0]))
            if nation:
                found |= {"area": float(nation["area"]), "inhabitants": float(nation["people"])}
            self.cities[key] = Place(found)
        for row in _rows("places"):
            found = {key: float(row[key]) for key in ("latitude", "longitude", "people", "founded") if row[key]}
            found |= _temperatures(row["january_july"]) | {"equator": abs(found["latitude"])}
            self.places[words_of(row["name"])] = Place(found)
        extents = {
            key_of(row["name"]): tuple(float(row[side]) for side in ("south", "north", "west", "east"))
            for row in _rows("extents")
        }
        for words, key in named.items():
            if key in nations:
                found = {"area": float(nations[key]["area"]), "inhabitants": float(nations[key]["people"])}
                self.places[words] = Place(found, extents.get(key))
        for name in ("europe", "africa"):
            self.places[(name,)] = Place({}, extents[name])
        self.places[("equator",)] = Place({"latitude": 0.0, "equator": 0.0})
        self.places[("greenwich",)] = Place({"longitude": 0.0})
        self.longest = 4

    def add(self, names: dict[tuple[str, ...], str]) -> None:
        """Names of the cities themselves."""
        self.places |= {words: self.cities[key] for words, key in names.items() if key in self.cities}

    def status(self, meaning: Meaning, city: str) -> str:
        """yes, no, or maybe where it is not known or too close."""
        figure = meaning.topic.removeprefix("figure ")
        value = self.cities[city].figures.get(figure) if city in self.cities else None
        if figure == "near":
            place = self.places[tuple((meaning.value or "").split())]
            value = _distance(self.cities[city], place) if city in self.cities else None
            if value is None:
                return "maybe"
            return (
                "maybe"
                if value < 1
                else "yes"
                if value <= (meaning.low or 0)
                else "no"
                if value >= (meaning.high or 0)
                else "maybe"
            )
        if figure == "olympics" and city in self.held:
            return "yes" if any(meaning.low <= year <= meaning.high for year in self.held[city]) else "no"
        if value is None:
            return "maybe"
        share, amount = MARGINS[figure]
        bounds = [bound for bound in (meaning.low, meaning.high) if bound is not None]
        if any(abs(value - bound) <= abs(bound) * share + amount for bound in bounds):
            return "maybe"
        above = meaning.low is None or value > meaning.low
        return "yes" if above and (meaning.high is None or value < meaning.high) else "no"

    def read(self, words: tuple[str, ...]) -> Meaning | None:
        said = " ".join(words)
        return self._compared(words, said) or self._bounded(words, said)

    def _reference(self, words: tuple[str, ...], after: int) -> tuple[tuple[str, ...], int] | None:
        for place in range(after, min(len(words), after + 3)):
            for length in range(self.longest, 0, -1):
                part = words[place : place + length]
                if len(part) == length and part in self.places:
                    return part, place + length
            if words[place] not in ("the", "city", "of", "in", "that", "is", "it", "a"):
                return None
        return None

    def _compared(self, words: tuple[str, ...], said: str) -> Meaning | None:
        if "than" in words:
            place = words.index("than")
            found = self._reference(words, place + 1)
            if found is None or "or" in words or words.count("than") > 1:
                return None
            name, end = found
            return self._than(said, words[:place], self.places[name], words[end:])
        if way := re.search(r"\b(north|south|east|west)(?:ern|erly)? of ", said):
            place = said[: way.end()].count(" ")
            found = self._reference(words, place)
            if found and found[1] >= len(words) and " part" not in said:
                return self._way(way[1], self.places[found[0]])
        if near := re.search(
            r"\b(?:near|near to|close to|not far from|next to|beside|in vicinity of|nearby|near by) ", said
        ):
            found = self._reference(words, said[: near.end()].count(" "))
            if found and found[1] >= len(words) and self.places[found[0]].figures.keys() >= {"latitude", "longitude"}:
                return Meaning("figure near", value=" ".join(found[0]), low=NEAR, high=FAR)
        if within := re.search(
            r"\bwithin (?:about |a )?(\d+(?:[.,]\d+)?) ?(km|kilometres|kilometers|miles|mile) (?:of|from) ", said
        ):
            found = self._reference(words, said[: within.end()].count(" "))
            if found and self.places[found[0]].figures.keys() >= {"latitude", "longitude"}:
                reach = float(within[1].replace(",", "")) * (1.61 if within[2].startswith("mile") else 1)
                return Meaning("figure near", value=" ".join(found[0]), low=reach * 0.9, high=reach * 1.1)
        return None

    def _way(self, way: str, place: Place) -> Meaning | None:
        figure, sign = _WAYS[way]
        if place.extent is not None:
            south, north, west, east = place.extent
            edge = {"north": north, "south": south, "east": east, "west": west}[way]
            return _bound(figure, edge, sign)
        return _bound(figure, place.figures.get(figure), sign)

    def _than(self, said: str, before: tuple[str, ...], place: Place, after: tuple[str, ...]) -> Meaning | None:
        figures, text = place.figures, " ".join(before)
        country = place.extent is not None or "latitude" not in figures
        sign = 1
        if re.search(r"equator", text):
            return _bound("equator", figures.get("equator"), -1 if re.search(r"closer|nearer", text) else 1)
        if way := re.search(r"\b(north|south|east|west)(?:ern|erly|wards?)?\b", text):
            return self._way(way[1], place)
        if found := re.search(r"\b(colder|cooler|warmer|hotter|milder)\b", text):
            sign = 1 if found[1] in ("warmer", "hotter", "milder") else -1
            season = next(
                (
                    key
                    for key, names in {
                        "coldest": "winter", "hottest": "summer", "january": "january", "july": "july"
                    }.items()
                    if names in said
                ),
                "mean",
            )  # fmt: skip
            return _bound(season, figures.get(season), sign)
        if re.search(
            r"\b(older|younger|newer)\b|\b(founded|built|established|settled)\b.*\b(earlier|later|before|after)\b", text
        ):
            return _bound("founded", figures.get("founded"), -1 if re.search(r"\b(older|earlier)\b", text) else 1)
        if re.search(r"\b(rainier|wetter|drier|dryer|more rain|less rain)\b", text):
            return _bound("rain", figures.get("rain"), -1 if re.search(r"drier|dryer|less", text) else 1)
        if re.search(r"\b(higher|lower)\b", text) and "population" not in text:
            return _bound("altitude", figures.get("altitude"), 1 if "higher" in text else -1)
        if re.search(r"\b(smaller|fewer|less)\b", text):
            sign = -1
        elif not re.search(r"\b(bigger|larger|more|greater|higher population)\b", text):
            return None
        people = re.search(r"\b(people|populous|populated|inhabitants|population|citizens|residents)\b", said)
        if not people and re.search(r"\b(more|less|fewer)\b", text):
            return None
        if re.search(r"\b(country|nation|state)\b", text) or country:
            figure = "inhabitants" if people else "area"
            return _bound(figure, figures.get(figure), sign)
        return _bound("people", figures.get("people"), sign)

    def _bounded(self, words: tuple[str, ...], said: str) -> Meaning | None:
        if swapped := re.search(r"\b(hotter|warmer|colder|cooler)\b.* in (\w+) than in (\w+)", said):
            winter, summer = {"january", "february", "december"}, {"june", "july", "august"}
            if swapped[2] in winter and swapped[3] in summer or swapped[2] in summer and swapped[3] in winter:
                south = (swapped[1] in ("hotter", "warmer")) == (swapped[2] in winter)
                return _bound("latitude", -5.0 if south else 10.0, -1 if south else 1)
        if "olympic" in said and (year := re.search(r"\b(1[89]\d\d|20\d\d)\b", said)):
            since = re.search(r"\b(since|after)\b", said)
            return Meaning("figure olympics", low=float(year[1]), high=9999.0 if since else float(year[1]))
        if re.search(
            r"\b(?:between|within) (?:the )?(?:two )?tropics\b|tropic of cancer and (?:the )?(?:tropic of )?capricorn",
            said,
        ):
            return Meaning("figure equator", high=23.4) if "not" not in words else None
        if century := re.search(r"(?:in the |in |during the )(\d+(?: ?(?:st|nd|rd|th))?|\w+(?: first)?) century", said):
            number = _ORDINALS.get(century[1]) or int(re.sub(r"\D", "", century[1]) or 0)
            if number and re.search(r"\b(founded|established|built|founding|settled|date)\b", said):
                return Meaning("figure founded", low=(number - 1) * 100.0 - 41, high=number * 100.0 + 41)
            return None
        if re.search(r"\b(latitude|parallel|degrees north|degrees south)\b", said):
            number = re.search(r"(\d+(?:\.\d+)?)(?:st|nd|rd|th)?", said)
            sign = _sign(said)
            if number is None or not sign:
                return None
            degrees = float(number[1])
            south = re.search(r"\bsouth\b", said) and not re.search(r"south of the \d+", said)
            return _bound(
                "equator" if "equator" in said else "latitude", -degrees if south else degrees, -sign if south else sign
            )
        number = _number(words)
        if number is None:
            return None
        sign = _sign(said)
        if re.search(r"\b(temperature|temperatures|average|mean|degrees|celsius)\b", said) and number < 60:
            figure = "coldest" if "winter" in said or "coldest" in said else "hottest" if "summer" in said else "mean"
            figure = "january" if "january" in said else "july" if "july" in said else figure
            if (
                "fahrenheit" in said
                or not sign
                or not re.search(r"average|mean|january|july|winter|summer|coldest|hottest", said)
            ):
                return None
            return _bound(figure, number, sign)
        if re.search(r"\b(rain|rainfall|precipitation)\b", said) and re.search(
            r"\b(mm|millimetres|millimeters|cm)\b", said
        ):
            return _bound("rain", number * (10 if re.search(r"\bcm\b", said) else 1), sign) if sign else None
        if re.search(r"\b(country|nation|state)\b", said) and number >= 1e5 and sign:
            if re.search(r"\b(people|inhabitants|population|citizens|residents|souls)\b", said):
                return _bound("inhabitants", number / 1e6, sign)
            if re.search(r"\b(square|area|km)\b", said):
                return _bound("area", number / 1e3, sign)
        if hours := re.search(r"within (\w+) hours? (?:of|from) (?:gmt|utc|greenwich|london)", said):
            return Meaning("figure hours", low=None, high=number + 0.5) if hours else None
        return None


def _bound(figure: str, number: float | None, sign: int) -> Meaning | None:
    if number is None:
        return None
    return Meaning(f"figure {figure}", low=number) if sign > 0 else Meaning(f"figure {figure}", high=number)


def _sign(said: str) -> int:
    more, less = re.search(rf"\b(?:{_MORE})\b", said), re.search(rf"\b(?:{_LESS}|south of)\b", said)
    return 0 if bool(more) == bool(less) else 1 if more else -1


def _number(words: tuple[str, ...]) -> float | None:
    found = [number for place in range(len(words)) if (number := number_at(words, place)) is not None]
    return found[0][0] if found else None


def _distance(one: Place, other: Place) -> float:
    north, east = radians(one.figures["latitude"]), radians(one.figures["longitude"])
    up, along = radians(other.figures["latitude"]), radians(other.figures["longitude"])
    half = sin((up - north) / 2) ** 2 + cos(north) * cos(up) * sin((along - east) / 2) ** 2
    return 2 * EARTH * asin(sqrt(half))
