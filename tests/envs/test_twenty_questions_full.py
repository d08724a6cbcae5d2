"""Twenty Questions with the full table: true facts, whole games, options and tables that are refused by name."""

from __future__ import annotations

import json
import time
import tracemalloc
from itertools import combinations

import pytest

from envs.registry import make_game, make_player, trials_of
from envs.twenty_questions.oracles import oracle_for
from envs.twenty_questions.table import TableError
from tests.support.full_table import FULL, ORACLE, SEAT, TABLE, answer
from tests.support.fuzz import utterances


def plainly(name: str) -> frozenset[str]:
    return TABLE.objects[name] - TABLE.sometimes[name]


# --- the table ---


def test_the_table_is_as_large_and_as_rich_as_it_says():
    assert len(TABLE.names) == 217 and len(TABLE.kinds) == 25 and len(TABLE.attributes) == 189
    assert sum(" " in name for name in TABLE.names) >= 15 and {"polar bear", "hot air balloon"} <= set(TABLE.names)
    for one, other in combinations(TABLE.names, 2):
        sure = (plainly(one) ^ plainly(other)) - TABLE.sometimes[one] - TABLE.sometimes[other]
        assert len(sure) >= 2, (one, other, sure)
    for attribute in TABLE.attributes:
        assert 0 < TABLE.yes[attribute.name].bit_count() < len(TABLE.names), attribute.name


def test_facts_hang_together():
    """What follows from what, whatever the object."""
    follows = [
        ("mammal", "animal"), ("bird", "animal"), ("fish", "animal"), ("insect", "animal"), ("reptile", "animal"),
        ("animal", "alive"), ("plant", "outdoors"), ("tree", "plant"), ("carnivore", "animal"), ("feline", "mammal"),
        ("four legs", "legs"), ("feathers", "bird"), ("fruit", "edible"), ("dairy", "edible"), ("alcohol", "drink"),
        ("screen", "electric"), ("engine", "manmade"), ("vehicle", "manmade"), ("furniture", "indoors"),
        ("clothing", "worn"), ("head", "worn"), ("enormous", "big"), ("tons", "heavy"), ("four wheels", "wheels"),
        ("pocket", "portable"), ("blown", "manmade"), ("writing", "manmade"),
    ]  # fmt: skip
    for name in TABLE.names:
        for one, other in follows:
            if one in plainly(name):
                assert other in TABLE.objects[name], (name, one, other)
        assert not ("alive" in plainly(name) and "manmade" in TABLE.objects[name]), name
        assert not ("big" in plainly(name) and "small" in TABLE.objects[name]), name
        assert not ("heavy" in plainly(name) and "lightweight" in TABLE.objects[name]), name


@pytest.mark.parametrize(
    ("question", "yes", "no"),
    [
        ("Can it fly?", ["eagle", "bee", "airplane", "kite"], ["penguin", "ostrich", "dog", "car"]),
        ("Does it have legs?", ["dog", "spider", "chair"], ["snake", "whale", "snail", "apple"]),
        ("Is it made of glass?", ["bottle", "mirror"], ["apple", "hammer"]),
        ("Is it red?", ["strawberry", "car"], ["banana", "polar bear", "key"]),
        ("Is it white?", ["newspaper", "sheep"], ["coffee", "crocodile"]),
        ("Is it blue?", ["jeans", "shirt"], ["newspaper", "lion"]),
        ("Is it bigger than a car?", ["elephant", "bus", "moon"], ["cat", "car", "bee"]),
        ("Does it weigh more than 10 kg?", ["piano", "lion"], ["cat", "pen"]),
        ("Is it something that is not alive?", ["car", "moon", "apple"], ["cat", "rose"]),
        ("Is it an animal that can fly?", ["parrot", "bee"], ["airplane", "dog"]),
    ],
)
def test_answers_that_everybody_knows(question, yes, no):
    assert {name: answer(question, name) for name in [*yes, *no]} == {
        **dict.fromkeys(yes, "yes"),
        **dict.fromkeys(no, "no"),
    }


def test_what_is_sometimes_true_gets_a_yes_either_way_and_rules_nobody_out():
    assert "green" in TABLE.sometimes["apple"] and answer("Is it green?", "apple") == "yes"
    assert answer("Is it something that is not green?", "apple") == "yes"
    apple = 1 << TABLE.names.index("apple")
    assert TABLE.yes["green"] & apple and TABLE.no["green"] & apple


def test_a_whole_game_turn_by_turn():
    """The secret is put in by hand: a penguin."""
    game = make_game("twenty_questions", FULL)
    game.restore({"secret": "penguin", "asked": 0, "won": False, "seen": TABLE.opening})
    said = [
        ("Is it man-made?", "no", 0.0),
        ("Is it an animal?", "yes", 0.0),
        ("Hmm, is it bigger than a cat?", "yes", 0.0),
        ("Can it fly?", "no", 0.0),
        ("Where does it live?", "invalid", 0.0),
        ("Does it live in a cold climate?", "yes", 0.0),
        ("Is it a polar bear?", "no", 0.0),
        ("Does it have feathers?", "yes", 0.0),
        ("Then it must be a penguin!", "yes", 1.0),
    ]
    for place, (text, reply, reward) in enumerate(said):
        step = game.step(text)
        assert (game._seen, step.rewards.get(SEAT, 0.0), step.executable) == (reply, reward, reply != "invalid"), text
        assert step.terminated == (place == len(said) - 1) and not step.truncated
    assert game.outcome() == {SEAT: 1.0} and game.closing() == {SEAT: "yes"} and game.facts() == {"secret": "penguin"}


def wins(player: str, games: int) -> float:
    game, guesser = make_game("twenty_questions", FULL), make_player("twenty_questions", player, FULL)
    won = 0.0
    for seed in range(games):
        game.reset(seed)
        guesser.reset(seed)
        while game.seat is not None:
            game.step(guesser.reply(game.observe(), ()))
        won += game.outcome()[SEAT]
    return won / games


def test_the_players_have_their_stated_strength():
    assert wins("expert", 200) > 0.98
    assert 0.28 < wins("mediocre", 400) < 0.48
    assert 0.01 < wins("random", 400) < 0.09


def test_the_language_holds_every_word_and_is_small():
    known = {word for sentence in make_game("twenty_questions", FULL).language() for word in sentence.split()}
    assert len(known) < 1000
    game, guesser = make_game("twenty_questions", FULL), make_player("twenty_questions", "mediocre", FULL)
    for seed in range(-40, 0):
        game.reset(seed)
        guesser.reset(seed)
        while game.seat is not None:
            said = guesser.reply(game.observe(), ())
            assert set(f"{game.observe()} {said} {game._secret}".split()) <= known
            game.step(said)


def test_a_game_in_the_middle_goes_on_elsewhere():
    one, other = make_game("twenty_questions", FULL), make_game("twenty_questions", FULL)
    one.reset(5)
    one.step("Is it alive?")
    saved = json.dumps(one.save())
    other.restore(json.loads(saved))
    for text in ("Can you eat it?", "Is it a dog?", "what?"):
        assert one.step(text) == other.step(text) and one.observe() == other.observe()
    assert len(saved) < 200


def test_noise_is_refused_quickly():
    game, texts = make_game("twenty_questions", FULL), utterances(3)
    ORACLE.understand("would one perhaps call this a pleasantly squeezable thing?")  # the model is loaded
    started, seed = time.perf_counter(), 0
    for _ in range(10_000):
        if game.seat is None:
            seed += 1
            game.reset(seed)
        step = game.step(next(texts))
        assert not step.executable and not step.rewards
    assert time.perf_counter() - started < 10  # about 1 s on an idle core


def test_a_live_game_is_small():
    make_game("twenty_questions", FULL).reset(0)
    tracemalloc.start()
    try:
        game = make_game("twenty_questions", FULL)
        game.reset(1)
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()


# --- options ---


def test_the_briefing_names_all_objects_or_their_kinds():
    assert "hot air balloon" in make_game("twenty_questions", FULL).briefing(SEAT)
    shy = make_game("twenty_questions", {**FULL, "listed": False}).briefing(SEAT)
    assert "hot air balloon" not in shy and "vehicle" in shy and "20 turns" in shy


def test_trials_are_each_table():
    small, full, published = trials_of("twenty_questions")
    assert (small.options, full.options) == ({}, FULL) and small.episodes == full.episodes == 200
    assert published.options == {"table": "lmrl", "turns": 20, "rules": "published"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"oracle": "delphi"}, "oracle='delphi' must be one of: plain, free, nearest, endpoint"),
        ({"oracle": "endpoint"}, "endpoint=None must hold url and model"),
        ({"oracle": "endpoint", "endpoint": {"url": "http://x/v1"}}, "endpoint.model: Field required"),
        ({"oracle": "endpoint", "endpoint": {"url": "http://x/v1", "model": "m", "tries": 1}}, "endpoint.tries: Extra"),
        ({"endpoint": {"url": "http://x/v1", "model": "m"}}, "are for oracle='endpoint'"),
        ({"constrained": "yes"}, "constrained='yes' must be true or false"),
        ({"listed": 1}, "listed=1 must be true or false"),
        ({"table": "small", "listed": False}, "listed=False needs a table whose objects have kinds"),
    ],
)
def test_bad_options_name_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message) as refused:
        make_game("twenty_questions", {"table": "full", **options})
    assert "\n" not in str(refused.value)


WORLD = """
differences = 2
[attributes.alive]
ask = ["is it alive?"]
keywords = ["alive"]
[attributes.big]
ask = ["is it big?"]
keywords = ["big"]
over = { cm = 100 }
[attributes.red]
ask = ["is it red?"]
keywords = ["red"]
[attributes.metal]
ask = ["is it metal?"]
keywords = ["metal"]
[groups]
"any colour" = ["red"]
[kinds]
animal = { is = ["alive"] }
[objects]
bear = { kind = "animal", cm = 200, kg = 100 }
car = { cm = 400, kg = 1000, is = ["metal"], sometimes = ["any colour"], also = ["auto"] }
rose = { cm = 30, kg = 0.1, is = ["alive", "red"] }
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('is = ["metal"], ', "", "alive alone tells 'car' from 'bear'"),
        ('kind = "animal"', 'kind = "beast"', "object 'bear' has unknown kind 'beast'"),
        ("kg = 100 }", 'kg = 100, isnt = ["alife"] }', "'bear' has unknown attribute 'alife'"),
        ("kg = 100 }", 'kg = 100, is = ["red"], isnt = ["red"] }', "object 'bear' has 'red' in two lists"),
        ("kg = 100 }", "kg = -1 }", "kg of object 'bear' must be a number above 0"),
        ("kg = 100 }", "weight = 1 }", "object 'bear' has an unknown key 'weight'"),
        ('also = ["auto"]', 'also = ["bear"]', "'bear' names both 'bear' and 'car'"),
        ("over = { cm = 100 }", "over = { mm = 100 }", "over of attribute 'big' must hold cm or kg"),
        ("differences = 2", "differences = 0", "differences=0 must be a whole number of at least 1"),
        ("differences = 2", 'reading = "aloud"', "reading='aloud' must be one of: plain, free"),
        ('"any colour" = ["red"]', '"any colour" = ["pink"]', "group 'any colour' has unknown attribute 'pink'"),
    ],
)
def test_a_table_that_cannot_be_played_is_refused_by_name(tmp_path, old, new, message):
    assert old in WORLD
    path = tmp_path / "world.toml"
    path.write_text(WORLD.replace(old, new))
    with pytest.raises(TableError, match=message):
        make_game("twenty_questions", {"table": str(path)})


def test_kinds_sizes_and_groups_make_the_facts(tmp_path):
    path = tmp_path / "world.toml"
    path.write_text(WORLD.replace("differences = 2", "").replace("cm = 400", "cm = 110"))
    table = oracle_for(str(path)).table
    assert table.objects == {"bear": {"alive", "big"}, "car": {"big", "red", "metal"}, "rose": {"alive", "red"}}
    assert table.sometimes == {"bear": set(), "car": {"big", "red"}, "rose": set()}  # 110 cm is nearly 100
    assert table.measures["auto"] == (110, 1000) and table.also == {"auto": "car"}
