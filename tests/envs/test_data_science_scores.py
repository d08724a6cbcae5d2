"""Data science: scores are those of scikit-learn, over honest halves, and are remembered."""

from __future__ import annotations

import itertools
import random

import pytest

from envs.data_science import scoring
from envs.data_science.tables import table_of
from tests.support.data_science_games import LIMITS, direct
from tests.support.data_science_games import closed_in_the_end as closed_in_the_end


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
