"""Guess My City: people who do not know the rules are understood, and what is doubtful is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from envs.guess_my_city.lore.things import MAYBE
from envs.guess_my_city.oracle import INVALID, NAME_REFUSED
from envs.guess_my_city.oracles import oracle_for
from envs.guess_my_city.wording import key_of
from tests.support.city_games import CITIES, ORACLE, answer

PEOPLE = Path(__file__).parents[1] / "data" / "guess_my_city_people.tsv"


def verdict(said: str, expected: str) -> str:
    if expected == "refuse":
        return "right" if said in (INVALID, NAME_REFUSED) else "wrong"
    if said in (INVALID, NAME_REFUSED):
        return "refused"
    told = said.lower()
    if expected.startswith("~"):
        return "right" if any(piece in told for piece in expected[1:].split("|")) else "wrong"
    return "right" if expected == "either" or told.startswith(expected) else "wrong"


def test_people_are_understood_and_seldom_answered_wrong():
    """Written before any rule for them; "either" is what people would not agree on."""
    found: Counter[str] = Counter()
    for line in PEOPLE.read_text(encoding="utf-8").splitlines():
        question, answers = line.split("\t")
        for pair in answers.split(";"):
            city, expected = pair.strip().split("=", 1)
            if key_of(city) in CITIES:
                found[verdict(answer(question, key_of(city)), expected)] += 1
    everything = sum(found.values())
    assert everything > 1000
    assert found["right"] / everything > 0.88 and found["wrong"] / everything < 0.01, found


@pytest.mark.parametrize("name", sorted({"cities", "countries"}))
def test_the_tables_name_nothing_that_the_world_does_not_have(name):
    known = {"cities": set(CITIES), "countries": {key_of(city.facts["country"][0]) for city in CITIES.values()}}[name]
    for key, thing in ORACLE.reader.things.things.items():
        assert set(getattr(thing, name)) <= known, key


@pytest.mark.parametrize(
    ("text", "city", "said"),
    [
        ("You are in Marrakesh, among the palms!", "marrakesh", "yes"),
        ("Is it Paris, Texas?", "paris", INVALID),
        ("Is it near Japan?", "tokyo", INVALID),
        ("Is it near Ghana, or is that far?", "paris", INVALID),
        ("Is the country a party to NATO?", "paris", "yes"),
        ("Was the city founded in the 20th century?", "brasilia", "yes"),
        ("Do people play cricket there?", "paris", INVALID),
        ("Is it the capital of Japan?", "osaka", "no"),
        ("What animals live there?", "nairobi", "animals of the country are lions"),
        ("do u live in teh capitol city", "cairo", "yes"),
        ("Are there lions where you live, out in the wild?", "nairobi", "yes"),
        ("Is your country an island?", "copenhagen", INVALID),
        ("Was your country colonized by Spain?", "lima", "yes"),
        ("Was your country colonized by Spain?", "oslo", "no"),
        ("Do they use the Latin alphabet?", "paris", "yes"),
        ("Is it farther north than Rome?", "oslo", "yes"),
        ("Is it colder than Paris in winter?", "lagos", "no"),
        ("Is your country bigger than France?", "brussels", "no"),
        ("Is it bigger than Paris?", "paris", INVALID),
        ("Which country's capital is it, I mean what is the capital of your country?", "sydney", "canberra"),
        ("Do you live in Lima, where the fog is?", "lima", "yes, that is the city"),
        ("is it mumabi", "mumbai", "yes, that is the city"),
        ("Are there no lions?", "nairobi", INVALID),
        ("How old are you?", "rome", INVALID),
    ],
)
def test_how_people_put_it(text, city, said):
    assert answer(text, city).lower().startswith(said.lower())


def test_what_people_would_not_agree_on_is_refused():
    doubtful = [(key, city) for key, thing in ORACLE.reader.things.things.items() for city in thing.cities]
    doubtful = [(key, city) for key, city in doubtful if ORACLE.reader.things.things[key].cities[city] == MAYBE]
    assert len(doubtful) > 1000
    assert ORACLE.answer(ORACLE.understand("is it safe there?"), "cairo") == INVALID


@pytest.mark.parametrize(
    ("said", "guessed"),
    [
        ("I doubt it is Paris", None),
        ("I doubt it, is it Paris?", None),
        ("I doubt that it is Paris.", None),
        ("Without a doubt it is Paris!", "paris"),
    ],
)
def test_a_doubt_is_no_guess(said, guessed):
    meaning = oracle_for("world", False).understand(said)
    assert (meaning.value if meaning is not None and meaning.topic == "guess" else None) == guessed
