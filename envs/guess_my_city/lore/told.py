"""Answers to open questions, in words of the tables. What the tables do not have is not told."""

from __future__ import annotations

import csv
from pathlib import Path

from envs.guess_my_city.atlas import City
from envs.guess_my_city.lore.reader import asked
from envs.guess_my_city.wording import key_of

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
CENTURIES = {16: "seventeenth", 17: "eighteenth", 18: "nineteenth", 19: "twentieth"}
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
            return entry["told"].format(CENTURIES[int(nation["since"]) // 100]) if nation["since"] else entry["none"]
        if topic == "ruled_by":
            return entry["told"].format(nation[topic]) if nation[topic] else entry["none"]
        if topic == "inhabitants":
            return f"Its country has {_band(float(nation['people']), PEOPLE)} people."
        if topic in ("flag", "script", "plants"):
            value = " and ".join(nation[topic].split(","))
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
            return f"It lies about {_rounded(city.numbers['altitude'])} metres above the sea."
        extra = own.get(f"more_{topic}")
        if not extra:
            return None
        listed = " and ".join((*city.facts[topic], extra))
        return {
            "landmark": f"You can see {listed} there.",
            "food": f"Typical food there is {listed} .",
            "fame": f"It is known for {listed} .",
        }.get(topic)

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
            return None if abs(latitude) < TROPICS else "December and January" if latitude > 0 else "June and July"
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


def _rounded(metres: float) -> str:
    """To hundreds, to tens below one hundred."""
    return str(round(metres / 100) * 100) if metres >= 100 else str(round(metres / 10) * 10)


def _band(number: float, bands: tuple[tuple[float, str], ...]) -> str:
    return next(said for below, said in bands if number < below)


def _five(number: float) -> int:
    return round(number / 5) * 5
