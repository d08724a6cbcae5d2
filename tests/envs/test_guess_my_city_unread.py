"""Guess My City: what narrows a question, puts it in the past or asks for a life is not passed over."""

from __future__ import annotations

import pytest

from envs.guess_my_city.oracle import INVALID
from tests.support.city_games import CITIES, answer


def first_words(text: str, cities: str) -> dict[str, str]:
    return {city: "refused" if (said := answer(text, city)) == INVALID else said[:3] for city in cities.split(", ")}


@pytest.mark.parametrize(
    ("questions", "yes", "no"),
    [
        ("Is it high above sea level? Is it far above sea level?", "la paz, quito", "amsterdam, venice"),
        (
            "Was it once the capital of its country? Did it use to be the capital? Was it formerly the capital?",
            "kyoto, rio de janeiro, saint petersburg, new york",
            "miami",
        ),
        ("Was it ever the capital? Has it ever been a capital?", "kyoto, new york, paris", "miami"),
        ("Is there a volcano nearby? Is it near a volcano?", "naples, mexico city", "amsterdam, kathmandu"),
        ("Is Karl Marx buried there?", "london", "edinburgh, paris"),
        ("Was Muhammad born there?", "mecca", "riyadh, paris"),
    ],
)
def test_what_is_asked_is_answered(questions, yes, no):
    for question in questions.split("? "):
        text = f"{question.rstrip('?')}?"
        assert first_words(text, f"{yes}, {no}") == {
            **dict.fromkeys(yes.split(", "), "Yes"), **dict.fromkeys(no.split(", "), "No,")
        }, text  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Is it much above sea level?",
        "Was it the capital during the war?",
        "Did it use to be the largest city?",
        "Was Shakespeare born there?",
        "Was Mozart born there?",
        "Was Einstein born there?",
        "Did Einstein come from there?",
        "Did the Beatles come from there?",
        "Does Messi come from there?",
        "Did Freud live there?",
        "Is it where Chopin died?",
        "Was Napoleon born there?",
        "Is it the birthplace of Christianity?",
        "Is it the birthplace of Shakespeare?",
        "Is it the main city of France?",
    ],
)
def test_what_nothing_explains_is_refused_for_every_city(text):
    assert {answer(text, city) for city in CITIES} == {INVALID}


def test_a_mountain_is_no_volcano():
    assert first_words("Is there a volcano nearby?", "madrid, athens, vancouver, paris") == dict.fromkeys(
        ("madrid", "athens", "vancouver", "paris"), "refused"
    )


def test_no_superlative_is_dropped():
    text = "Is it the city with the most people in Africa?"
    assert first_words(text, "lagos, cairo, kinshasa") == dict.fromkeys(("lagos", "cairo", "kinshasa"), "refused")
    assert first_words(text, "nairobi, paris") == dict.fromkeys(("nairobi", "paris"), "No,")


def test_the_country_of_the_beatles_is_known_and_their_city_is_none_of_these():
    assert first_words("Is it the city of the Beatles?", "london") == {"london": "refused"}


@pytest.mark.parametrize(
    ("text", "city", "said"),
    [
        ("Do lions live there?", "nairobi", "Yes"),
        ("Do olives grow by your town?", "seville", "Yes"),
        ("Does pass a big river by the city?", "cologne", "Yes"),
        ("Does tango come from there?", "buenos aires", "Yes"),
        ("Does the Pope live there?", "rome", "Yes"),
        ("Is it the largest city of its country?", "paris", "Yes"),
        ("Do most people follow Islam?", "cairo", "Yes"),
        ("Was it once part of the Soviet Union?", "riga", "Yes"),
        ("Is it the capital?", "kyoto", "No,"),
    ],
)
def test_what_was_read_is_still_read(text, city, said):
    assert answer(text, city).startswith(said)
