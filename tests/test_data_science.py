"""Data science: honest scores, data read as documented, players of their stated strength.

That model-written code cannot get out is the subject of test_data_science_sandbox.py.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import random
import subprocess
import sys
import threading

import numpy
import pytest
from sklearn.metrics import roc_auc_score

from envs.data_science import answer, scoring
from envs.data_science.answer import LONGEST, NoCode, code_of, tidy
from envs.data_science.game import SEAT, DataScience
from envs.data_science.players import BOOSTED, PLAYERS, RECIPES, program
from envs.data_science.sandbox.pool import Limits, pool
from envs.data_science.tables import FILES, NAMES, TableError, table_of
from envs.registry import make_game, make_player

LIMITS = Limits("process", 30, 2048)
TREE = (
    "def build_model(x_train, y_train): from sklearn.tree import DecisionTreeClassifier; "
    "return DecisionTreeClassifier(max_depth=2).fit(x_train, y_train)"
)


@pytest.fixture(scope="module", autouse=True)
def closed_in_the_end():
    yield
    pool.close()


def play(player: str, seed: int, **options):
    game, coder = make_game("data_science", options), make_player("data_science", player, options)
    game.reset(seed)
    coder.reset(seed)
    said = []
    while game.seat is not None:
        observation = game.observe()
        said.append((observation, coder.reply(observation, game.actions())))
        game.step(said[-1][1])
    return game, said


def direct(table, deal: int, fit) -> float:
    """The score as scikit-learn itself gives it, in this process."""
    scores = []
    for split in range(5):
        train, test = scoring.halves(table, deal, split)
        given = fit(table.x[train], table.y[train]).predict_proba(table.x[test])
        if len(table.classes) == 2:
            scores.append(roc_auc_score(table.y[test], given[:, 1]))
        else:
            scores.append(roc_auc_score(table.y[test], given, multi_class="ovr", average="macro"))
    return float(numpy.mean(scores))


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
    error = "TypeError: build_model() takes 1 positional argument but 2 were given"
    assert game.observe() == f"the attempt failed. {error} attempts left: 4"
    assert step.caption == f"the coder's code for iris fails: {error}"

    step = game.step("def build_model(x_train, y_train):\n    return Tree().fit(x_train, y_train)")
    assert step.rewards == {SEAT: -1.0}
    assert game.observe() == "the attempt failed. NameError: name 'Tree' is not defined (line 2) attempts left: 3"

    step = game.step(f"Here you are:\n```python\n{TREE}\n```")
    expected = direct(
        table_of("iris", ""), 0, lambda x, y: DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, y)
    )
    auc = step.rewards[SEAT]
    assert 0.9 < auc <= 1 and abs(auc - expected) < 0.02, "a tree breaks ties by chance"
    assert step.executable and step.terminated and not step.truncated
    assert step.caption == f"the coder's classifier for iris has a ROC AUC of {auc:.4f}"
    assert game.seat is None and game.outcome() == {SEAT: auc}
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
    for fact in ("build_model(x_train, y_train)", "3 attempts", "7 seconds", "1500 megabytes", "ROC AUC", "costs 1"):
        assert fact in text
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
    deals = [play("random", seed, dataset="iris", attempts=1)[0].save()["deal"] for seed in range(-20, 20)]
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


# What an utterance says


@pytest.mark.parametrize(
    "text",
    [
        TREE,
        f"\n\n  {TREE}  \n",
        f"```python\n{TREE}\n```",
        f"```\n{TREE}\n```",
        f"``` py\r\n{TREE}\r\n```",
        f"Sure! First:\n```\npip install scikit-learn\n```\nthen\n```python\n{TREE}\n```\nDone.",
        f"```python\n{TREE}",
    ],
)
def test_code_is_found(text):
    assert code_of(text) == TREE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the reply is empty"),
        ("``` \n\n```", "SyntaxError: invalid syntax (line 1)"),
        ("i would use a forest", "SyntaxError: invalid syntax (line 1)"),
        ("x = 1", "the reply does not define build_model(x_train, y_train)"),
        ("class A:\n  def build_model(x, y): pass", "the reply does not define build_model(x_train, y_train)"),
        ("async def build_model(x, y): pass", "the reply does not define build_model(x_train, y_train)"),
        ("build_model = lambda x, y: None", "the reply does not define build_model(x_train, y_train)"),
        ("def build_model(x, y):\nreturn", "IndentationError: expected an indented block after function definition "
         "on line 1 (line 2)"),
        ("def build_model(x, y): f(", "SyntaxError: '(' was never closed (line 1)"),
        ("def build_model(x, y): pass\0", "SyntaxError: "),
        ("# \ud800\ndef build_model(x, y): pass", "SyntaxError: this cannot be read as Python"),
        ("x" * (LONGEST + 1), f"the reply is longer than {LONGEST} characters"),
    ],
)  # fmt: skip
def test_what_is_no_code_is_turned_away_with_a_reason(text, reason):
    with pytest.raises(NoCode) as caught:
        code_of(text)
    assert str(caught.value) == reason or (reason.endswith(": ") and str(caught.value).startswith(reason))


def test_the_deepest_nesting_cannot_hurt_the_worker():
    """In a process of its own, and in a thread of it, as a worker steps this game: it must live."""
    script = f"""
import sys, threading; sys.path.insert(0, {os.getcwd()!r})
from envs.data_science.answer import LONGEST, NoCode, code_of
pieces = ("-", "not ", "~", "(", "[", "{{", "{{1:", "a.b", ".b", "()", "[0]", "lambda:", "x=", "+1", "**1", "else ",
          "a if b else ", "await ", "*", "@a\\n", "if 1:\\n ", "f'{{", "a:=(", "for x in ", "'", "(lambda:", "1,")
def read():
    for piece, start in ((p, s) for p in pieces for s in ("", "a", "1", "def build_model(x, y): return ")):
        for end in ("", "1", ")"):
            try: code_of((start + piece * LONGEST)[: LONGEST - 1] + end)
            except NoCode: pass
    print("alive")
thread = threading.Thread(target=read); thread.start(); thread.join()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-500:]


def test_what_is_no_code_never_starts_a_sandbox():
    pool.close()
    game = make_game("data_science", {"dataset": "iris", "attempts": 100})
    game.reset(0)
    for text in ("", "hello", "import os", "os.system('x')", "def f(): pass", "\0", "```", "9" * 5000):
        assert not game.step(text).executable
    assert pool.idle == []


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ("cannot import name 'A' from 'sklearn.svm' (/root/x/site-packages/sklearn/svm/__init__.py) (line 1)",
         "cannot import name 'A' from 'sklearn.svm' (line 1)"),
        ("cannot import name 'A' from 'b' (unknown location)", "cannot import name 'A' from 'b'"),
        ("No such file: '/home/me/data.csv'", "No such file: 'data.csv'"),
        ("<A object at 0x7f00deadbeef>", "<A object at 0x>"),
        ("a\n\n  b\x1b[31m\u202e c", "a b [31m c"),
        ("1/2 and a/b", "1/2 and a/b"),
        ("x" * 300, "x" * 197 + "..."),
    ],
)  # fmt: skip
def test_error_text_is_one_short_line_without_places_of_this_machine(text, tidied):
    assert tidy(text) == tidied and len(tidied) <= answer.LONGEST_ERROR


# Scores


@pytest.mark.parametrize("name", ["breast_cancer", "balance_scale", "wine"])
@pytest.mark.parametrize(
    ("made", "where"),
    [
        ("LogisticRegression(max_iter=50)", "sklearn.linear_model"),
        ("GaussianNB()", "sklearn.naive_bayes"),
        ("KNeighborsClassifier(7)", "sklearn.neighbors"),
        ("RandomForestClassifier(15, random_state=3, n_jobs=-1)", "sklearn.ensemble"),
        ("HistGradientBoostingClassifier(max_iter=10)", "sklearn.ensemble"),
        ("DummyClassifier()", "sklearn.dummy"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_classifier_scores_what_it_scores_in_scikit_learn(name, made, where):
    """Bit by bit."""
    from importlib import import_module

    kind = made.partition("(")[0]
    table = table_of(name, "")
    text = f"def build_model(x, y):\n    from {where} import {kind}\n    return {made}.fit(x, y)"
    result = scoring.evaluate(text, table, 2, LIMITS)
    expected = direct(table, 2, lambda x, y: eval(made, {kind: getattr(import_module(where), kind)}).fit(x, y))
    assert result == scoring.Result(auc=expected)


def test_columns_follow_the_classes_of_the_model():
    """A model that lists its classes in another order, or has not met one of them."""
    table = table_of("iris", "")
    turned = """
def build_model(x, y):
    from sklearn.naive_bayes import GaussianNB
    inner = GaussianNB().fit(x, y)
    class Model:
        classes_ = [2, 0, 1]
        def predict_proba(self, x): return inner.predict_proba(x)[:, [2, 0, 1]]
    return Model()
"""
    plain = "def build_model(x, y): from sklearn.naive_bayes import GaussianNB; return GaussianNB().fit(x, y)"
    assert scoring.evaluate(turned, table, 0, LIMITS) == scoring.evaluate(plain, table, 0, LIMITS)
    partial = plain.replace("fit(x, y)", "fit(x[y > 0], y[y > 0])")
    assert 0.5 < scoring.evaluate(partial, table, 0, LIMITS).auc < scoring.evaluate(plain, table, 0, LIMITS).auc


@pytest.mark.parametrize("name", ["balance_scale", "breast_cancer", "iris", "wine"])
def test_halves_are_halves_of_every_class(name):
    table = table_of(name, "")
    seen = set()
    for deal, split in itertools.product(range(3), range(5)):
        train, test = scoring.halves(table, deal, split)
        assert sorted([*train, *test]) == list(range(len(table.y)))
        for number in range(len(table.classes)):
            assert abs((table.y[train] == number).sum() - (table.y[test] == number).sum()) <= 1
        seen.add(tuple(sorted(train)))
    assert len(seen) == 15, "no two splits are the same"


def test_the_order_of_rows_tells_nothing_about_classes():
    """Who knows how rows are drawn, and where each comes to stand, learns what their numbers tell and no more:
    rows are numbered by their columns, and a half is in an order that is drawn without its classes."""
    for name in ("iris", "wine", "breast_cancer", "balance_scale"):
        table = table_of(name, "")
        assert [*map(tuple, table.x)] == sorted(map(tuple, table.x))
        one = scoring.halves(table, 0, 0)
        for half, taken in zip(one, ("train", "test"), strict=True):
            rng = random.Random(f"halves {name} 0 0")
            for number in range(len(table.classes)):  # draw what is drawn before
                rows = list(range(int((table.y == number).sum())))
                rng.shuffle(rows)
                rng.randrange(2)
            order = list(range(len(one[0])))
            rng.shuffle(order)
            if taken == "test":
                order = list(range(len(half)))
                rng.shuffle(order)
            assert [sorted(half)[place] for place in order] == list(half)


def test_a_result_is_remembered_and_forgotten():
    table = table_of("iris", "")
    chance = (
        "def build_model(x, y):\n    import time, numpy\n    from sklearn.tree import DecisionTreeClassifier as T\n"
        "    return T(max_features=1, random_state=int(time.time_ns() % 2**31)).fit(x, y)"
    )
    scoring.forget()
    first = scoring.evaluate(chance, table, 0, LIMITS)
    assert scoring.evaluate(chance, table, 0, LIMITS) is first
    assert scoring.evaluate(chance, table, 1, LIMITS) is not first
    scoring.forget()
    assert scoring.evaluate(chance, table, 0, LIMITS) is not first


# Data


def write_table(path, name: str, rows: int | None = None, columns: int | None = None, target: str = "") -> None:
    wanted, rng = FILES[name], random.Random(f"table {name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    titles = [f"column {number}" for number in range(wanted.columns if columns is None else columns)]
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*titles[:2], target or wanted.target, *titles[2:]])
        for _ in range(wanted.rows + 30 if rows is None else rows):
            cells = [rng.choice(("", "3.5", "-1", "20")), rng.choice(("?", "Mars", "Earth", "Venus"))]
            cells += [str(rng.random()) for _ in titles[2:]]
            out.writerow([*cells[:2], rng.choice(("yes", "no")), *cells[2:]])


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_published_shape_is_read(name, tmp_path):
    write_table(tmp_path / f"{name}.csv", name)
    table = table_of(name, str(tmp_path))
    assert table.x.shape == (FILES[name].rows, FILES[name].columns)
    assert table.classes == ("no", "yes") and table.columns[0] == "column_0"
    assert table.x.dtype == numpy.float64 and table.y.dtype == numpy.int64 and numpy.isfinite(table.x).all()
    assert set(table.x[:, 0]) == {-1.0, 3.5, 20.0}, "an empty cell becomes the median"
    assert set(table.x[:, 1]) == {-1.0, 0.0, 1.0, 2.0}, "no value, Earth, Mars, Venus"
    assert table_of(name, str(tmp_path)) is table
    if name == "breast_w":
        game = make_game("data_science", {"dataset": name, "folder": str(tmp_path)})
        game.reset(0)
        assert game.step(BOOSTED).executable


def test_cells_become_numbers_as_documented(tmp_path):
    """All rows by hand: those of the published shape, so none is sampled away."""
    path = tmp_path / "breast_w.csv"
    lines = ["a,b,c,d,e,f,g,h,i,Class"]
    lines += [
        f"{n},{'NA' if n % 3 else 10 * n},{('x', 'y')[n % 2]},1,1,1,1,True,{n}e-1,{'mb'[n % 2]}" for n in range(69)
    ]
    path.write_text("\ufeff" + "\n".join(lines) + "\n\n")
    table = table_of("breast_w", str(tmp_path))
    assert table.columns == tuple("abcdefghi") and table.classes == ("b", "m")
    middle = 10 * 33.0  # the median of 0, 30, 60 ... 660
    for n, (row, label) in enumerate(zip(table.x, table.y, strict=True)):
        assert list(row) == [n, middle if n % 3 else 10 * n, n % 2, 1, 1, 1, 1, 0, float(f"{n}e-1")]
        assert table.classes[label] == "mb"[n % 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": 68}, "has 68 rows with a class, needs at least 69"),
        ({"columns": 8}, "must have the target column 'Class' and 9 others .OpenML data set 15 .*; it has 9: column 0"),
        ({"target": "class"}, "must have the target column 'Class'"),
        ({"rows": 0}, "has 0 rows"),
    ],
)
def test_a_file_of_another_shape_is_refused(changed, message, tmp_path):
    write_table(tmp_path / "breast_w.csv", "breast_w", **changed)
    with pytest.raises(TableError, match=message):
        table_of("breast_w", str(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a CSV file"),
        (b"\xff\xfe\x00", "not a CSV file"),
        (b"Class,a,b,c,d,e,f,g,h,i\n1,2\n", "row 2 has 2 cells, the header has 10"),
        (b"Class,a,b,c,d,e,f,g,h,i\n" + b"1,2,3,4,5,6,7,8,9,0\n" * 69, "must have 2 to 20 classes"),
    ],
)
def test_a_broken_file_is_refused(content, message, tmp_path):
    (tmp_path / "breast_w.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        make_game("data_science", {"dataset": "breast_w", "folder": str(tmp_path)})


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_asked_for(name, tmp_path):
    with pytest.raises(ValueError) as caught:
        make_game("data_science", {"dataset": name, "folder": str(tmp_path)})
    message = str(caught.value)
    assert str(tmp_path / f"{name}.csv") in message and "\n" not in message
    assert FILES[name].source in message and repr(FILES[name].target) in message and str(FILES[name].columns) in message


def test_the_balance_scale_tips_as_it_should():
    table = table_of("balance_scale", "")
    assert table.x.shape == (125, 4) and table.classes == ("balanced", "left", "right")
    assert len(set(map(tuple, table.x))) == 125 and set(table.x.ravel()) == {1, 2, 3, 4, 5}
    for (left, far, right, wide), label in zip(table.x, table.y, strict=True):
        assert label == (0 if left * far == right * wide else 1 if left * far > right * wide else 2)
    assert list(numpy.bincount(table.y)) == [11, 61, 53]


def test_the_names_are_those_of_the_published_experiments_and_three_more():
    published = {"pharyngitis", "health_insurance", "spaceship_titanic", "airlines", "balance_scale", "breast_w"}
    assert set(NAMES) == published | {"breast_cancer", "iris", "wine"}


# The players


@pytest.mark.parametrize(("player", "least", "most"), [("expert", 1, 1), ("mediocre", 0.2, 0.48), ("random", 0, 0.2)])
def test_the_players_have_their_stated_strength(player, least, most):
    games = 50 if player == "random" else 200  # few of its programs are ever the same, and each is run
    outcomes = [play(player, seed, dataset="iris", deals=1)[0].outcome()[SEAT] for seed in range(games)]
    assert least <= sum(outcome > 0 for outcome in outcomes) / games <= most


@pytest.mark.parametrize(
    ("name", "least"), [("breast_cancer", 0.993), ("balance_scale", 0.95), ("wine", 0.995), ("iris", 0.995)]
)
def test_the_expert_needs_one_attempt(name, least):
    for seed in range(8):
        game, said = play("expert", seed, dataset=name)
        assert len(said) == 1 and game.outcome()[SEAT] > least


@pytest.mark.parametrize("name", ["breast_cancer", "balance_scale"])
def test_the_language_holds_every_word_that_is_said_or_seen(name):
    game = make_game("data_science", {"dataset": name})
    words = {word for sentence in game.language() for word in sentence.split()}
    assert len(words) < 400 and any(word != word.lower() for word in words)
    for player in PLAYERS:
        for seed in range(12 if player == "random" else 60):
            game, said = play(player, seed, dataset=name, deals=1)
            texts = [*(text for pair in said for text in pair), *game.closing().values(), *game.facts().values()]
            assert {word for text in texts for word in text.split()} <= words
            assert all(said == " ".join(said.split()) and len(said.split()) < 128 for _, said in said)
