"""LMRL-Gym's Wordle and Maze: marks, walls, what is understood, and players of their stated strength."""

from __future__ import annotations

from itertools import product

import pytest

from envs.lmrl.maze import MOVES, STARTS, plan_of
from envs.lmrl.wordle import marks, word_in, words_of
from envs.registry import make_game, make_player
from tests.support.glee_games import finish, new


def played(name: str, player: str, seed: int, **options):
    game, seated = new(name, seed, **options), make_player(name, player, options)
    seated.reset(seed)
    return game, finish(game, {game.seats[0]: seated})


# Wordle


@pytest.mark.parametrize(
    ("guess", "secret", "told"),
    [
        ("crane", "crane", "g g g g g"), ("crane", "sport", "b y b b b"), ("speed", "erase", "y b y y b"),
        ("erase", "speed", "y b b y y"), ("allow", "lloyd", "b g y y b"), ("about", "fjeld", "b b b b b"),
        ("sassy", "glass", "y y y g b"),
    ],
)  # fmt: skip
def test_marks(guess, secret, told):
    """By the published rule a letter that is said twice is marked twice."""
    assert marks(guess, secret) == told


def test_a_game_of_wordle_by_hand(tmp_path):
    (tmp_path / "words.txt").write_text("crane\nsport\nshort\nno\ntoolong\ncrane\n")
    game = new("wordle", 0, words=str(tmp_path / "words.txt"), tries=3)
    game._secret = "short"
    assert game.observe() == "which word?" and "3 tries" in game.briefing("guesser")
    assert game.step("Guess: CRANE").caption == "the guesser tries crane: b y b b b" and game.observe() == "b y b b b"
    step = game.step("about")
    assert not step.executable and game.observe() == "no such word"
    last = game.step("s h o r t")
    assert last.terminated and last.rewards == {"guesser": 1.0} == game.outcome()
    assert game.closing() == {"guesser": "g g g g g"} and game.facts() == {"secret": "short"}


def test_tries_run_out():
    game = new("wordle", 1)
    steps = [game.step("hm") for _ in range(6)]
    assert steps[-1].terminated and not any(step.rewards or step.executable for step in steps)
    assert game.outcome() == {"guesser": 0.0} and len(game.facts()["secret"]) == 5


@pytest.mark.parametrize(
    ("said", "word"),
    [
        *(
            ("crane", "crane"),
            ("Crane.", "crane"),
            ("**CRANE**", "crane"),
            ("c r a n e", "crane"),
            ("Word: crane", "crane"),
        ),
        *(("My guess is crane", "crane"), ("Thought: vowels help.\nGuess: crane", "crane"), ('"crane"', "crane")),
        *(
            ("crane or sport", None),
            ("Guess: crane\nGuess: sport", None),
            ("", None),
            ("cranes", None),
            ("cr\u0430ne", None),
        ),
        *(("I have no idea what the word is", None), ("cran3", None)),
    ],
)
def test_what_is_said_in_wordle(said, word):
    assert word_in(said) == word


def test_the_common_words_are_words_of_five_letters_each_once():
    words = words_of("common")
    assert len(words) == len(set(words)) > 500 and all(len(word) == 5 and word.islower() for word in words)


def test_players_of_wordle_have_their_stated_strength():
    found = {who: [played("wordle", who, seed) for seed in range(120)] for who in ("expert", "mediocre", "random")}
    won = {who: sum(game.outcome()["guesser"] for game, _ in games) / 120 for who, games in found.items()}
    assert won["expert"] == 1.0 and abs(won["mediocre"] - 0.41) < 0.12 and won["random"] < 0.06
    assert abs(sum(len(turns) for _, turns in found["expert"]) / 120 - 3.0) < 0.2


# Maze


def test_the_published_mazes():
    for maze, goal, cells in (("double_t", (8, 6), 26), ("u", (3, 3), 7)):
        plan = plan_of(maze)
        assert plan.goal == goal and len(plan.free) == cells and STARTS[maze] in plan.free
    assert plan_of("double_t").distances()[1, 1] == 12 == plan_of("double_t").distances()[1, 11]


def test_a_walk_by_hand():
    game = new("maze", 0, start="published", turns=20)
    assert game.observe() == (
        "the goal is at 8 , 6 . you are at 1 , 1 . there are walls above you, below you, to your left."
    )
    assert game.step("move left").executable and " 1 , 1 ." in game.observe(), "a wall stops it"
    assert not game.step("go home").executable and " 1 , 1 ." in game.observe()
    for move in ("right",) * 2 + ("down",) * 4 + ("right",) * 3 + ("down",) * 2:
        assert not game.step(f"Action: move {move}").terminated
    assert game.observe().endswith("you are at 7 , 6 . there are walls to your left, to your right.")
    last = game.step("I will move down")
    assert last.terminated and not last.truncated and last.rewards == {"walker": 1.0} == game.outcome()
    assert game.closing() == {"walker": "you have reached the goal."}


def test_a_walk_that_is_too_long_is_cut_off():
    game = new("maze", 0, start="published", turns=3)
    steps = [game.step("move left") for _ in range(3)]
    assert steps[-1].truncated and not steps[-1].terminated and game.outcome() == {"walker": 0.0}


def test_the_partial_view_tells_walls_alone():
    game = new("maze", 0, start="published", view="partial")
    assert game.observe() == "there are walls above you, below you, to your left." and "row" not in game.briefing(
        "walker"
    )


@pytest.mark.parametrize(("maze", "view"), [*product(("double_t", "u"), ("full", "partial"))])
def test_the_expert_gets_there_from_everywhere_by_the_shortest_way_if_it_sees_where_it_is(maze, view):
    plan = plan_of(maze)
    lengths = {}
    for cell in plan.free - {plan.goal}:
        game, expert = new("maze", 0, maze=maze, view=view), make_player("maze", "expert", {"maze": maze, "view": view})
        expert.reset(0)
        game.cell = cell
        lengths[cell] = len(finish(game, {"walker": expert}))
        assert game.outcome() == {"walker": 1.0}
    if view == "full":
        assert lengths == {cell: far for cell, far in plan.distances().items() if far}


def test_players_of_maze_have_their_stated_strength():
    for who, stated in (("expert", 1.0), ("mediocre", 0.66), ("random", 0.25)):
        won = sum(played("maze", who, seed)[0].outcome()["walker"] for seed in range(100)) / 100
        assert abs(won - stated) < 0.15, (who, won)


@pytest.mark.parametrize("text", ["###\n#G#\n###", "#####\n#G#x#\n#####", "####\n# ##\n##G#", "# G G", " G" * 60, ""])
def test_what_is_no_maze_is_one_line(tmp_path, text):
    path = tmp_path / "maze.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match="^game option maze=") as refused:
        make_game("maze", {"maze": str(path)})
    assert "\n" not in str(refused.value)


def test_a_maze_of_ones_own(tmp_path):
    path = tmp_path / "maze.txt"
    path.write_text("######\n#   G#\n######\n")
    game = new("maze", 0, maze=str(path))
    assert set(game.actions()) == set(MOVES) and "the goal is at 1 , 4 ." in game.observe()
    with pytest.raises(ValueError, match="start='published' is for the mazes double_t, u"):
        make_game("maze", {"maze": str(path), "start": "published"})


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("wordle", {"words": "/no/such"}, "words='/no/such' is neither 'common' nor a file"),
        ("wordle", {"words": 3}, "words=3 must be"),
        ("wordle", {"tries": 0}, "tries=0 must be"),
        ("maze", {"maze": "spiral"}, "maze='spiral' is neither"),
        ("maze", {"view": "half"}, "view='half' must be one of: full, partial"),
        ("maze", {"turns": 0}, "turns=0 must be"),
    ],
)
def test_impossible_options_are_one_line(name, options, told):
    with pytest.raises(ValueError, match="^game option ") as refused:
        make_game(name, options)
    assert told in str(refused.value) and "\n" not in str(refused.value)
