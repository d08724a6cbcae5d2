"""Data science: scores are those of scikit-learn, over random halves, and are remembered."""

from __future__ import annotations

import itertools

import numpy
import pytest

from envs.data_science import scoring
from envs.data_science.splits import halves
from envs.data_science.tables import Table, table_of
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
    assert result == scoring.Result(auc=expected, last=True)


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
def test_halves_are_halves_with_every_class(name):
    table = table_of(name, "")
    seen = set()
    for deal, split in itertools.product(range(3), range(5)):
        train, test = halves(table, deal, split)
        assert sorted([*train, *test]) == list(range(len(table.y))) and abs(len(train) - len(test)) <= 1
        assert {*table.y[train]} == {*table.y[test]} == {*range(len(table.classes))}
        seen.add(tuple(sorted(train)))
    assert len(seen) == 15, "no two splits are the same"


def test_rare_classes_are_in_both_halves():
    y = [*[0] * 4, *[1] * 4, *[2] * 30]
    table = Table("rare", ("x",), ("a", "b", "c"), numpy.arange(38.0)[:, None], numpy.array(y))
    for deal in range(100):
        for half in halves(table, deal, 0):
            assert {*table.y[half]} == {0, 1, 2}


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
