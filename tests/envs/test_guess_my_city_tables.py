"""Guess My City: another table is another world, and one that cannot be played is refused by name."""

from __future__ import annotations

import pytest

from envs.guess_my_city.atlas import TABLES, TableError
from envs.guess_my_city.oracle import INVALID, WRONG
from envs.guess_my_city.oracles import oracle_for
from envs.guess_my_city.players import questions_of
from envs.registry import make_game
from tests.support.city_games import SEAT, heard

COUNTRY = """
continents = ["Europe"]
regions = ["Western Europe"]
languages = ["{0}ish"]
currencies = ["{0}o"]
religions = ["Islam"]
sports = ["chess"]
"""
CITY = """
country = "{0}"
latitude = 10
longitude = 20
altitude = 30
people = 1.5
founded = 1200
climates = ["tropical"]
landmarks = ["the {1} Gate"]
foods = ["soup"]
fame = ["bells"]
"""
WORLD = (
    f'[countries."Ruritania"]{COUNTRY.format("Ruritan")}[countries."Graustark"]{COUNTRY.format("Graustark")}'
    f'[cities."Strelsau"]{CITY.format("Ruritania", "Red")}[cities."Edelweiss"]\n'
    f'also = ["Edel"]{CITY.format("Graustark", "Blue")}'
)


def world(tmp_path, text: str) -> dict:
    path = tmp_path / "world.toml"
    path.write_text(text)
    return {"table": str(path), "paraphrases": False}


def test_another_table_is_another_world(tmp_path):
    game = make_game("guess_my_city", world(tmp_path, WORLD))
    game.restore({"secret": "edelweiss", "asked": 0, "won": False, "seen": ""})
    assert "one of 2 well-known cities" in game.briefing(SEAT)
    assert heard(game, ["is the blue gate there?", "can you see the red gate?", "is it paris?", "is it strelsau?"]) == [
        "Yes, you can see the Blue Gate there.",
        "No, you cannot see that there.",
        INVALID,
        WRONG,
    ]
    assert game.step("is it edel?").terminated and game.outcome() == {SEAT: 1.0}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "the Red Gate",
            "the Strelsauer Gate",
            "landmark 'the Strelsauer Gate' of city 'Strelsau' gives its name away",
        ),
        ('also = ["Edel"]', 'also = ["Strelsau"]', "city 'Edelweiss' and city 'strelsau' share the name 'Strelsau'"),
        ('country = "Ruritania"', 'country = "Utopia"', "city 'Strelsau' is in unknown country 'Utopia'"),
        ("people = 1.5", "people = 1500000", "people of city 'Strelsau' must be a number from 0.001 to 100"),
        ("founded = 1200\n", "", "founded of city 'Strelsau' must be a number"),
        ('foods = ["soup"]', "foods = []", "city 'Strelsau' has no foods"),
        ('foods = ["soup"]', 'foods = "soup"', "foods of city 'Strelsau' must be a list of words"),
        ("altitude = 30", 'flags = ["capitol"]\naltitude = 30', "unknown flag 'capitol'"),
        ("altitude = 30", 'doubtful = ["fame"]\naltitude = 30', "unknown flag 'fame'"),
        ("altitude = 30", 'flags = ["hot"]\ndoubtful = ["hot"]\naltitude = 30', "has 'hot' among its flags and among"),
        ("altitude = 30", 'river = "x"\naltitude = 30', "city 'Strelsau' has unknown key 'river'"),
        ('sports = ["chess"]', "", "country 'Ruritania' has no sports"),
        ("[cities.", "[towns.", "the table has unknown key 'towns'"),
        ('[cities."Strelsau"]', '[cities."Strelsau"', "not a TOML file"),
    ],
)
def test_a_table_that_cannot_be_played_is_refused_by_name(tmp_path, old, new, message):
    assert old in WORLD
    with pytest.raises(TableError, match=message):
        make_game("guess_my_city", world(tmp_path, WORLD.replace(old, new, 1)))


def test_what_is_doubtful_is_not_answered(tmp_path):
    text = WORLD.replace("altitude = 30", 'doubtful = ["river", "mountains"]\naltitude = 30', 1)
    game = make_game("guess_my_city", world(tmp_path, text))
    asked = ["is there a river?", "are there mountains?", "is it the capital?"]
    told = {}
    for city in ("strelsau", "edelweiss"):
        game.restore({"secret": city, "asked": 0, "won": False, "seen": ""})
        told[city] = heard(game, asked)
    assert told["strelsau"][:2] == [INVALID] * 2 and INVALID not in told["edelweiss"]
    assert told["strelsau"][2] == told["edelweiss"][2]


def test_cities_that_nothing_tells_apart_are_refused(tmp_path):
    text = WORLD.replace('country = "Graustark"', 'country = "Ruritania"')
    with pytest.raises(TableError, match="fewer than 2 facts tell city 'Strelsau' from city 'Edelweiss'"):
        make_game("guess_my_city", world(tmp_path, text))


def test_the_largest_city_is_so_by_the_tables_own_figures(tmp_path):
    text = WORLD.replace('country = "Graustark"', 'flags = ["largest"]\ncountry = "Ruritania"').replace("1.5", "2.5", 1)
    with pytest.raises(TableError, match="city 'Edelweiss' is no largest city: 'Strelsau' has more people"):
        make_game("guess_my_city", world(tmp_path, text))


@pytest.mark.parametrize(("table", "fewest"), [("world", 100), ("small", 24)])
def test_a_table_that_ships_has_enough_cities_and_is_told_apart_by_the_players_questions(table, fewest):
    oracle = oracle_for(table, False)
    cities = oracle.atlas.cities
    assert len(cities) >= fewest and (TABLES / f"{table}.toml").is_file()
    questions = questions_of(oracle)
    answers = {city: tuple(oracle.answer(oracle.understand(each), city) for each in questions) for city in cities}
    assert len(set(answers.values())) == len(cities)


def test_the_small_table_knows_of_its_cities_what_the_world_does():
    small, world = (oracle_for(table, False) for table in ("small", "world"))
    questions = questions_of(small)
    for city in small.atlas.cities:
        told = {each: [oracle.answer(oracle.understand(each), city) for oracle in (small, world)] for each in questions}
        assert not {each: answers for each, answers in told.items() if len(set(answers)) > 1}, city
