"""Data science: whole games, options and trials, players of their stated strength.

That model-written code cannot get out is the subject of test_data_science_sandbox.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from envs.data_science import scoring
from envs.data_science.answer import code_of
from envs.data_science.game import SEAT, DataScience
from envs.data_science.players import PLAYERS, RECIPES, program
from envs.data_science.tables import table_of
from envs.registry import make_game
from tests.support.data_science_games import LIMITS, TREE, direct, play, write_table
from tests.support.data_science_games import closed_in_the_end as closed_in_the_end

# The game


def test_a_whole_game_by_hand():
    from sklearn.tree import DecisionTreeClassifier

    game = make_game("data_science", {"dataset": "iris", "deals": 1})
    assert game.seat is None and game.slow
    game.reset(0)
    assert game.observe() == (
        "data set iris: 150 rows, 4 columns, 3 classes. rows of each class: setosa 50, versicolor 50, virginica 50. "
        "columns: sepal_length_(cm), sepal_width_(cm), petal_length_(cm), petal_width_(cm). "
        "write build_model(x_train, y_train)"
    )
    assert game.outcome() == {SEAT: 0.0} and game.closing() == {} and game.facts() == {}

    step = game.step(TREE.replace("x_train, y_train)", "x_train)", 1))
    assert (step.rewards, step.executable, step.terminated) == ({SEAT: -1.0}, False, False)
    assert game.observe() == "the attempt failed. TypeError attempts left: 4"
    assert step.caption == "the coder's code for iris fails: TypeError"

    step = game.step("def build_model(x_train, y_train):\n    return Tree().fit(x_train, y_train)")
    assert step.rewards == {SEAT: -1.0}
    assert game.observe() == "the attempt failed. NameError (line 2) attempts left: 3"

    step = game.step(f"Here you are:\n```python\n{TREE}\n```")
    expected = direct(
        table_of("iris", ""), 0, lambda x, y: DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, y)
    )
    auc = (step.rewards[SEAT] + 1) / 2
    assert 0.9 < auc <= 1 and abs(auc - expected) < 0.02, "a tree breaks ties by chance"
    assert step.executable and step.terminated and not step.truncated
    assert step.caption == f"the coder's classifier for iris has a ROC AUC of {auc:.4f}"
    assert game.seat is None and game.outcome() == step.rewards
    assert game.closing() == {SEAT: f"success. {auc:.2f}"} and game.facts() == {"result": f"success. {auc:.2f}"}
    with pytest.raises(RuntimeError, match="over"):
        game.step(TREE)
    game.reset(0)
    assert game.outcome() == {SEAT: 0.0} and game.seat == SEAT


def test_attempts_run_out():
    game = make_game("data_science", {"dataset": "iris", "attempts": 2})
    game.reset(1)
    steps = [game.step("pardon?"), game.step("")]
    assert [step.terminated for step in steps] == [False, True] and not any(step.truncated for step in steps)
    assert game.outcome() == {SEAT: 0.0} and game.facts() == {"result": "failure"}
    assert game.closing() == {SEAT: "the attempt failed. the reply is empty attempts left: 0"}


def test_the_briefing_says_all_that_a_coder_has_to_know():
    text = make_game("data_science", {"attempts": 3, "seconds": 7, "megabytes": 1500}).briefing(SEAT)
    for fact in ("build_model(x_train, y_train)", "3 attempts", "7 seconds", "1500 megabytes", "ROC AUC", "costs 1",
                 "made up", "twice that score less 1"):  # fmt: skip
        assert fact in text
    assert "You are paid that score." in make_game("data_science", {"reward": "auc"}).briefing(SEAT)
    assert code_of(text[text.index("Example:\n") + 9 :])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "titanic"}, "dataset='titanic' must be one of: airlines, balance_scale, "),
        ({"dataset": 3}, "dataset=3 must be text"),
        ({"folder": None}, "folder=None must be text"),
        ({"attempts": 0}, "attempts=0 must be a whole number from 1 to 100"),
        ({"attempts": True}, "attempts=True"),
        ({"seconds": 0.5}, "seconds=0.5"),
        ({"megabytes": 10}, "megabytes=10 must be a whole number from 1024"),
        ({"deals": 0}, "deals=0"),
        ({"reward": "gini"}, "reward='gini' must be one of: above_chance, auc"),
        ({"isolation": "none"}, "isolation='none' must be one of: auto, bubblewrap, namespaces, process"),
    ],
)
def test_bad_options_name_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        make_game("data_science", options)


def test_a_saved_episode_goes_on():
    game = make_game("data_science", {"dataset": "iris"})
    game.reset(3)
    game.step("nonsense")
    saved = json.dumps(game.save())
    other = make_game("data_science", {"dataset": "iris"})
    other.restore(json.loads(saved))
    assert len(saved) < 1000 and other.observe() == game.observe() and json.dumps(other.save()) == saved
    assert other.step(TREE) == game.step(TREE)
    assert other.save() == game.save() and other.outcome() == game.outcome()


def test_trials_are_those_whose_data_is_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [(trial.name, trial.episodes) for trial in DataScience.trials()] == [
        ("breast_cancer", 50),
        ("balance_scale", 50),
    ]
    write_table(tmp_path / "datasets" / "breast_w.csv", "breast_w")
    assert DataScience.trials()[-1].options == {"dataset": "breast_w"}
    assert make_game("data_science", DataScience.trials()[-1].options).table.x.shape == (69, 9)


def test_the_same_seed_is_the_same_game_in_every_process():
    """Even for a classifier that draws on chance and is given no seed."""
    script = f"""
import sys; sys.path.insert(0, {os.getcwd()!r})
from envs.registry import make_game
game = make_game("data_science", {{"dataset": "wine"}})
for seed in (5, -5, 6):
    game.reset(seed)
    game.step("def build_model(x, y): from sklearn.ensemble import ExtraTreesClassifier as E; return E(5).fit(x, y)")
    print(repr(game.outcome()), game.save()["deal"])
"""
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "2")
    ]
    assert told[0] == told[1] and len(set(told[0].splitlines())) > 1
    game = make_game("data_science", {"dataset": "iris", "attempts": 1})
    deals = []
    for seed in range(-20, 20):
        game.reset(seed)
        deals.append(game.save()["deal"])
    assert set(deals) == {0, 1, 2, 3} and deals[:20] != deals[:19:-1]


def test_games_in_threads_do_not_disturb_each_other():
    texts = [program(recipe.module, recipe.name, argument) for recipe in RECIPES for argument in recipe.arguments[:1]]
    table = table_of("iris", "")
    scoring.forget()
    expected = [scoring.evaluate(text, table, 0, LIMITS) for text in texts]
    scoring.forget()
    got: dict[int, scoring.Result] = {}
    threads = [
        threading.Thread(target=lambda n=n: got.update({n: scoring.evaluate(texts[n], table, 0, LIMITS)}))
        for n in range(len(texts))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[n] for n in range(len(texts))] == expected


# The players


@pytest.mark.parametrize(("player", "least", "most"), [("expert", 1, 1), ("mediocre", 0.2, 0.48), ("random", 0, 0.2)])
def test_the_players_have_their_stated_strength(player, least, most):
    games = 25 if player == "random" else 80  # few of its programs are ever the same, and each is run
    outcomes = [play(player, seed, dataset="iris", deals=1)[0].outcome()[SEAT] for seed in range(games)]
    assert least <= sum(outcome > 0 for outcome in outcomes) / games <= most


@pytest.mark.parametrize(
    ("name", "least"), [("breast_cancer", 0.986), ("balance_scale", 0.9), ("wine", 0.99), ("iris", 0.99)]
)
def test_the_expert_needs_one_attempt(name, least):
    for seed in range(8):
        game, said = play("expert", seed, dataset=name)
        assert len(said) == 1 and game.outcome()[SEAT] > least


@pytest.mark.parametrize("name", ["breast_cancer", pytest.param("balance_scale", marks=pytest.mark.long)])
def test_the_language_holds_every_word_that_is_said_or_seen(name):
    game = make_game("data_science", {"dataset": name})
    words = {word for sentence in game.language() for word in sentence.split()}
    assert len(words) < 400 and any(word != word.lower() for word in words)
    for player in PLAYERS:
        for seed in range(6 if player == "random" else 20):
            game, said = play(player, seed, dataset=name, deals=1)
            texts = [*(text for pair in said for text in pair), *game.closing().values(), *game.facts().values()]
            assert {word for text in texts for word in text.split()} <= words
            assert all(said == " ".join(said.split()) and len(said.split()) < 128 for _, said in said)
