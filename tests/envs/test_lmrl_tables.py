"""The objects and the cities of LMRL-Gym as tables, and tables on the base of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs.guess_my_city import atlas
from envs.guess_my_city import oracles as city_oracles
from envs.registry import make_player
from envs.twenty_questions.facts import TableError
from envs.twenty_questions.oracles import oracle_for
from envs.twenty_questions.table import read_table
from tests.support.glee_games import finish, new

DATA = Path(__file__).parents[1] / "data"
OBJECTS = [line.split(";") for line in (DATA / "lmrl_objects.txt").read_text("utf-8").splitlines()]
CITIES = (DATA / "lmrl_cities.txt").read_text("utf-8").splitlines()
OPTIONS = {"table": "lmrl", "turns": 20, "rules": "published"}


def test_every_object_of_lmrl_is_won_by_each_of_its_names():
    oracle = oracle_for("lmrl", "plain")
    found = set()
    for names in OBJECTS:
        meant = {oracle.understand(f"Question: Is it a {name}?").guess for name in names}
        assert len(meant) == 1 and None not in meant, names
        found |= meant
    assert len(OBJECTS) == 158 and found == set(oracle.table.names)


@pytest.mark.parametrize(
    ("thing", "yes", "no"),
    [
        ("sea", ("is it salty?", "is it liquid?"), ("does it separate continents?", "is it alive?")),
        ("tree", ("does it have branches?", "is it alive?", "is it green?"), ("is it a kind of boat?",)),
        ("saxophone", ("is it made of metal?", "is it an instrument?"), ("does it have strings?",)),
        ("computer", ("does it have a screen?", "is it electronic?"), ("is it edible?", "is it an animal?")),
        ("cat", ("is it a pet?",), ("does it fly?",)),
    ],
)
def test_what_is_true_of_some(thing, yes, no):
    oracle = oracle_for("lmrl", "plain")
    for answer, questions in (("yes", yes), ("no", no)):
        for question in questions:
            assert oracle.answer(oracle.understand(question), thing) == answer, question


def test_the_expert_finds_every_object_by_published_rules():
    won = []
    for seed in range(0, 158, 3):
        game, expert = new("twenty_questions", seed, **OPTIONS), make_player("twenty_questions", "expert", OPTIONS)
        expert.reset(seed)
        finish(game, {"guesser": expert})
        won.append(game.outcome()["guesser"])
    assert sum(won) == len(won)


SMALL = 'base = "small"\ntake = ["dog", "cat"]\n'


def test_a_table_on_the_base_of_another_changes_what_it_names(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        SMALL + '[attributes.animal]\nask = ["does it breathe?"]\nkeywords = ["breathe"]\n[objects]\nrobot = []\n'
    )
    table = read_table(path)
    assert set(table.names) == {"dog", "cat", "robot"} and table.opening == read_table(path.parent / path).opening
    assert next(each for each in table.attributes if each.name == "animal").keywords == ("breathe",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('base = "nowhere"', "table 'nowhere' is neither a file nor one of"),
        ('base = "lmrl"', "its base 'lmrl' has a base itself"),
        (SMALL.replace("dog", "unicorn"), "take has 'unicorn', which is no object of 'small'"),
        ('base = "small"\ntake = 3', "take must be a list of words"),
        ('base = "small"\ntake = ["dog"]', "needs at least two objects"),
        ('take = ["dog"]', "take is for a table with a base"),
    ],
)
def test_a_base_that_does_not_fit_is_one_line(tmp_path, text, told):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(TableError) as refused:
        read_table(path)
    assert told in str(refused.value) and "\n" not in str(refused.value)


# cities


def test_every_city_of_lmrl_is_won_by_its_published_name():
    oracle = city_oracles.oracle_for("lmrl", False)
    meant = [oracle.understand(f"Question: Is it {name}?") for name in CITIES]
    assert all(each.topic == "guess" for each in meant)
    assert {each.value for each in meant} == set(oracle.atlas.cities) and len(CITIES) == 100
    assert oracle.understand("is it london?").value == "london"
    assert oracle.understand("is it vienna?").value == "elsewhere", "a city of the base that is not taken: an honest no"


@pytest.mark.parametrize(
    ("city", "question", "answer"),
    [
        ("Harbin", "which country is it in?", "It is in China."),
        ("Pyongyang", "is it a capital?", "Yes, it is a capital."),
        ("Abidjan", "which continent is it on?", "It is in Africa."),
        ("Medan", "is it on an island?", "Yes, it lies on an island."),
        ("Izmir", "which country is it in?", "It is in Turkey."),
    ],
)
def test_what_is_true_of_some_cities(city, question, answer):
    oracle = city_oracles.oracle_for("lmrl", False)
    assert oracle.answer(oracle.understand(question), city.lower()) == answer


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('base = "nowhere"', "table 'nowhere' is neither a file nor one of"),
        ('base = "lmrl"', "its base has a base itself"),
        ('base = "world"\ntake = ["Atlantis"]', "take has 'Atlantis', which is no city of its base"),
        ('base = "world"\ntake = 3', "take has 3, which"),
        ('base = "world"\ntake = ["Paris"]', "needs at least two cities"),
        ('base = "world"\ncountries = 3', "countries must be a section"),
        ('take = ["Paris"]', "take is for a table with a base"),
    ],
)
def test_a_base_of_cities_that_does_not_fit_is_one_line(tmp_path, text, told):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(atlas.TableError) as refused:
        atlas.read_atlas(path)
    assert told in str(refused.value) and "\n" not in str(refused.value)
