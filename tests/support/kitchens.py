"""What the tests of Overcooked share: the best ways to both dishes, and short names."""

from __future__ import annotations

from envs.overcooked.kitchen import Kitchen, room_of
from envs.registry import make_game

SEAT = "agent"
GOAL = "To serve the dish of a bowl only containing chopped tomato, you should first"
# What to say, and the primitive steps it takes.
TOMATO = (
    ("pick up the tomato", 2),  # one right to (1,5), touch (0,5)
    ("put the tomato on the cutting board", 5),  # four left to (1,1), touch (1,0)
    ("chop the tomato", 3),
    ("pick up the tomato", 1),
    ("take the bowl", 10),  # four right and four down to (5,5), touch (6,5): the tomato in, and again: the bowl taken
    ("serve the dish", 7),  # four left and two up to (3,1), touch (3,0)
)
TOMATO_LETTUCE = (
    ("pick up the tomato", 2),
    ("put the tomato on the first cutting board", 5),
    ("chop the tomato", 3),
    ("pick up the lettuce", 5),  # four right to (1,5), touch (1,6)
    ("put the lettuce on the second cutting board", 6),  # four left and one down to (2,1), touch (2,0)
    ("chop the lettuce", 3),
    ("take the bowl", 8),  # four right and three down to (5,5), touch (6,5)
    ("put the lettuce in the bowl", 8),  # back to (2,1), touch (2,0)
    ("put the tomato in the bowl", 2),  # one up to (1,1), touch (1,0)
    ("serve the dish", 3),  # two down to (3,1), touch (3,0)
)
WAYS = {"tomato_salad": TOMATO, "tomato_lettuce_salad": TOMATO_LETTUCE}


def game_of(task: str = "tomato_salad", seed: int = 0, **options):
    game = make_game("overcooked", {"task": task, **options})
    game.reset(seed)
    return game


def paid(game, utterance: str) -> float:
    return game.step(utterance).rewards[SEAT]


def kitchen_of(task: str) -> Kitchen:
    return Kitchen(room_of(task))


def steps_of(game, utterance: str) -> int:
    before = game.kitchen.steps
    game.step(utterance)
    return game.kitchen.steps - before
