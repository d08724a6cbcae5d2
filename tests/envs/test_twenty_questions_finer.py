"""Twenty Questions, the full table: a question is answered by the fact that it asks for, not by a wider one near it."""

from __future__ import annotations

import pytest

from envs.registry import make_game
from tests.support.full_table import FULL, SEAT, TABLE, answer


@pytest.mark.parametrize(
    ("questions", "yes", "no"),
    [
        ("Does it run on batteries? Is it battery powered?", "flashlight, cell phone", "toaster, refrigerator"),
        ("Is it rechargeable? Do you charge it?", "laptop", "train, toaster"),
        ("Do you plug it in? Is it plugged in?", "toaster", "watch, rocket"),
        ("Does it have stripes? Is it striped?", "zebra, tiger", "giraffe, cow, dice"),
        ("Does it have spots? Is it spotted?", "giraffe, dice", "zebra, tiger"),
        ("Does it live in the ocean? Is it a sea creature?", "whale, octopus", "frog"),
        ("Is it found in the ocean?", "whale, submarine", "goldfish, frog"),
        ("Does it bite?", "dog, mosquito", "fork, saw, key"),
        ("Does it have thorns? Is it prickly?", "rose, cactus", "cat, knife, pyramid"),
        ("Is it pointed?", "pencil, rocket", "lawn mower"),
        ("Is it a brass instrument?", "trumpet", "flute, balloon, basketball"),
        ("Is it a stringed instrument?", "violin, guitar", "kite, tennis racket"),
        ("Is it worn on the wrist?", "watch", "ring, shoe"),
        ("Do you wear it on your finger?", "ring", "watch"),
        ("Is it worn around the neck?", "necklace", "giraffe, bottle"),
        ("Can you hold it in one hand?", "spoon, apple", "dog, bicycle"),
        ("Is it vegetarian?", "carrot, cow", "lion, shark"),
        ("Does it have antlers?", "deer", "cow, sheep, giraffe"),
        ("Is it cutlery? Is it silverware?", "knife, fork, spoon", "plate, kettle, frying pan"),
        ("Is it tableware?", "plate, cup, fork", "microwave"),
        ("Do you eat off of it? Do you eat off it?", "plate", "apple, hammer"),
        ("Is it served hot? Is it served warm?", "soup, coffee", "sun, car, candle"),
        ("Is it served cold?", "ice cream", "iceberg, moon"),
        ("Is it frozen?", "iceberg", "apple"),
        ("Does it produce heat?", "toaster, sun", "bread, milk"),
        ("Does it have pages?", "book, newspaper", "pen"),
        ("Is it a building?", "church, skyscraper", "tent, car"),
        ("Is it used to saw wood?", "saw", "hammer, piano"),
        ("Is it a big cat?", "lion, tiger", "dog"),
        ("Is it poisonous?", "mushroom, snake", "bus, horse"),
        ("Is it a farm animal? Is it livestock?", "cow, chicken", "apple, tractor"),
        ("Does it have fangs?", "snake, lion", "key, frog"),
        ("Does it have sharp teeth?", "shark, wolf", "rake, hammer"),
        ("Is it an aquatic animal?", "shark, frog", "iceberg"),
        ("Is it a root vegetable?", "carrot, potato", "train, ant"),
        ("Is it a tropical fruit?", "banana, pineapple", "lion, volcano"),
        ("Is it a breakfast food?", "egg, bread", "newspaper, knife"),
        ("Is it a writing instrument?", "pen, pencil", "laptop, ruler"),
        ("Is it made of beef?", "hamburger", "salmon, chicken"),
        ("Does it eat leaves?", "giraffe", "lion, lettuce"),
        ("Is it poultry?", "chicken", "eagle, penguin"),
        ("Does it live in the Arctic?", "polar bear", "penguin, tiger"),
        ("Does it live in a herd?", "cow, zebra", "shark, mosquito"),
        ("Does it live in packs?", "wolf", "cow, bee"),
        ("Does it live in a colony?", "ant, bee", "crocodile"),
        ("Is it spherical? Is it shaped like a ball?", "orange, golf ball", "pizza, plate, frying pan"),
        ("Does it have only two legs?", "eagle", "bear, chair"),
        ("Is it a ship?", "sailboat", "bed, car"),
    ],
)
def test_the_finer_fact_answers(questions, yes, no):
    for question in questions.split("? "):
        for expected, names in (("yes", yes), ("no", no)):
            for name in filter(None, names.split(", ")):
                assert answer(f"{question.rstrip('?')}?", name) == expected, (question, name)


@pytest.mark.parametrize(
    ("question", "replies"),
    [
        ("Is it only found outdoors?", {"cat": "invalid", "sofa": "no"}),
        ("Is it used exclusively in the kitchen?", {"knife": "invalid", "whale": "no"}),
        ("Is it a big cat?", {"cat": "invalid"}),
        ("Does it have pages?", {"laptop": "invalid", "cell phone": "invalid"}),
        ("Is it a building?", {"bridge": "invalid"}),
        ("Does it eat fruit?", {"monkey": "invalid", "apple": "invalid"}),
        ("Does it eat grass?", {"bee": "invalid", "parrot": "invalid", "lion": "no"}),
        ("Is it golden?", {"banana": "invalid", "lion": "invalid"}),
        ("Is it made of marble?", {"church": "invalid", "moon": "invalid", "cat": "no"}),
        ("Can you bite into it?", {"apple": "invalid", "fork": "invalid"}),
    ],
)
def test_what_nothing_answers_is_refused(question, replies):
    assert {name: answer(question, name) for name in replies} == replies


@pytest.mark.parametrize(
    ("question", "replies"),
    [
        ("Is it a bear?", {"bear": "yes", "polar bear": "yes", "panda": "yes", "teddy bear": "invalid", "cat": "no"}),
        ("I guess bear", {"bear": "yes", "polar bear": "no"}),
        ("Is it a brown bear?", {"bear": "yes", "polar bear": "no"}),
        ("Is it a balloon?", {"balloon": "yes", "hot air balloon": "yes", "car": "no"}),
        ("Is it a cat?", {"cat": "yes", "lion": "invalid", "dog": "no"}),
    ],
)
def test_a_name_may_be_that_of_a_kind_and_wins_for_the_object_alone(question, replies):
    game = make_game("twenty_questions", FULL)
    for name, reply in replies.items():
        game.restore({"secret": name, "asked": 0, "won": False, "seen": TABLE.opening})
        step = game.step(question)
        won = reply == "yes" and name == (
            "balloon" if "balloon" in question else "cat" if "cat" in question else "bear"
        )
        assert (game.observe(), step.rewards) == (reply, {SEAT: 1.0} if won else {})
        assert ": wrong" not in step.caption or reply == "no"


def test_a_big_cat_wins_no_cat():
    game = make_game("twenty_questions", FULL)
    game.restore({"secret": "cat", "asked": 0, "won": False, "seen": TABLE.opening})
    assert not game.step("Is it a big cat?").rewards
