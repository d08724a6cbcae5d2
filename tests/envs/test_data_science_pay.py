"""Data science: who knows nothing is paid nothing, whatever is returned as a model or as its predictions."""

from __future__ import annotations

import pytest

from envs.data_science.claims import MISSHAPEN, NO_MODEL, TOO_LATE
from envs.data_science.game import SEAT
from envs.registry import make_game
from tests.support.data_science_games import closed_in_the_end as closed_in_the_end
from tests.support.data_science_games import game_on, noise
from tests.support.sandbox_payloads import WRITE_RESULTS, code
from tests.support.sandbox_payloads import nothing_remembered as nothing_remembered

KNOWS_NOTHING = [
    "from sklearn.dummy import DummyClassifier as D; return D().fit(x, y)",
    "from sklearn.dummy import DummyClassifier as D; return D(strategy='most_frequent').fit(x, y)",
    "from sklearn.dummy import DummyClassifier as D; return D(strategy='uniform', random_state=3).fit(x, y)",
    "from sklearn.tree import DecisionTreeClassifier as D; return D().fit(x * 0, y)",
]


@pytest.mark.parametrize("name", ["breast_cancer", "balance_scale"])
@pytest.mark.parametrize("body", KNOWS_NOTHING)
def test_a_model_that_knows_nothing_is_paid_nothing(name, body):
    game = make_game("data_science", {"dataset": name, "deals": 1})
    game.reset(0)
    step = game.step(code(body))
    assert step.terminated and step.rewards == {SEAT: 0.0} == game.outcome()
    published = make_game("data_science", {"dataset": name, "deals": 1, "reward": "auc"})
    published.reset(0)
    assert published.step(code(body)).rewards == {SEAT: 0.5} == published.outcome()


def test_a_model_that_is_worse_than_chance_pays_for_it():
    body = """
        from sklearn.linear_model import LogisticRegression
        return LogisticRegression(max_iter=5000).fit(x, 1 - y)
    """
    paid = {}
    for reward in ("above_chance", "auc"):
        game = make_game("data_science", {"deals": 1, "reward": reward})
        game.reset(0)
        paid[reward] = game.step(code(body)).rewards[SEAT], game.outcome()[SEAT]
    (above, outcome), (auc, published) = paid.values()
    assert above == 2 * auc - 1 < -0.9 and outcome == 0 and published == auc < 0.05


MODEL = """
import numpy, os
class Model:
    def predict_proba(self, rows):
        {}
return Model()
"""
EQUAL = """
class Equal(float):
    __eq__ = __ge__ = __gt__ = __le__ = lambda self, other: True
    __lt__ = __ne__ = lambda self, other: False
    __hash__ = float.__hash__
return [[Equal(.5), Equal(.5)] for _ in rows]"""
SUBCLASS = """
class Whole(numpy.ndarray):
    shape = property(lambda self: (60, 2))
    __len__ = lambda self: 60
    __getitem__ = tobytes = lambda self, *_: b'\\xff' * 960
    __array_wrap__ = __array_finalize__ = lambda self, *_: None
    __eq__ = lambda self, other: True
return numpy.full((len(rows), 2), .5).view(Whole)"""
LOOKING = """
import gc, sys
frame, found = sys._getframe(), []
while frame:
    found += frame.f_locals.values()
    frame = frame.f_back
found += gc.get_objects()
for each in found:
    if isinstance(each, numpy.ndarray) and each.dtype.kind in 'iu' and each.shape == (len(rows),) and each is not y:
        return numpy.stack([1 - each, each], 1)
return numpy.full((len(rows), 2), .5)"""
PATCHED = """
import sklearn.metrics
sklearn.metrics.roc_auc_score = numpy.mean = numpy.isfinite = lambda *a, **k: 1.0
return numpy.full((len(rows), 2), .5)"""
FIRST = f"""
{WRITE_RESULTS.format(text="b'P' + numpy.full((len(rows), 2), .5).tobytes()").strip()}
os._exit(0)"""
FAULTY = {
    "NaN": ("return numpy.full((len(rows), 2), numpy.nan)", "ValueError: predict_proba gave NaN or infinity"),
    "one NaN": (
        "p = numpy.full((len(rows), 2), .5); p[-1] = numpy.nan; return p",
        "ValueError: predict_proba gave NaN or infinity",
    ),
    "large numbers": (
        "return numpy.full((len(rows), 2), 1e308)",
        "ValueError: predict_proba gave numbers outside [0, 1]",
    ),
    "a row too few": ("return numpy.full((len(rows) - 1, 2), .5)", MISSHAPEN),
    "a row too many": ("return numpy.full((len(rows) + 1, 2), .5)", MISSHAPEN),
    "a column too many": ("return numpy.full((len(rows), 3), .5)", MISSHAPEN),
    "another dimension": ("return numpy.full((len(rows), 2, 1), .5)", MISSHAPEN),
    "negative classes": ("Model.classes_ = [-1, 0]; return numpy.full((len(rows), 2), .5)", MISSHAPEN),
    "a class twice": ("Model.classes_ = [0, 0]; return numpy.full((len(rows), 2), .5)", MISSHAPEN),
    "unknown classes": ("Model.classes_ = [0, 2**40]; return numpy.full((len(rows), 2), .5)", MISSHAPEN),
    "objects that are no numbers": ("return [[object()] * 2] * len(rows)", "TypeError"),
    "an end": ("os._exit(0)", "the process ended without predictions"),
    "a file": ("open('/etc/passwd')", "PermissionError (line 5)"),
    "a process": ("os.fork()", "PermissionError (line 5)"),
    "a flood": (
        WRITE_RESULTS.format(text="b'P' * 10**6").strip() + "\nos._exit(0)",
        "the process sent more than predictions",
    ),
    "a signal": ("import signal; signal.raise_signal(9)", TOO_LATE),
}
CONSTANT = {
    "objects that are equal to everything": EQUAL,
    "a subclass of array": SUBCLASS,
    "a metric of its own": PATCHED,
    "numbers past the check": FIRST,
    "numbers as text": "return [['.5', '.5']] * len(rows)",
    "truth": "return numpy.ones((len(rows), 2), bool)",
    "complex numbers": "return numpy.full((len(rows), 2), .5 + 1j * numpy.random.rand())",
    "a masked array": "return numpy.ma.array(numpy.full((len(rows), 2), .5), mask=True)",
    "classes found in the process": LOOKING,
}


def model(body: str) -> str:
    return code(MODEL.format(body.strip().replace("\n", "\n        ")))


@pytest.mark.parametrize("kind", FAULTY)
def test_what_are_no_predictions_fails(kind):
    body, said = FAULTY[kind]
    game = game_on(noise())
    game.step(model(body))
    assert game.observe() == f"the attempt failed. {said} attempts left: 4"


@pytest.mark.parametrize("kind", CONSTANT)
def test_whatever_says_the_same_of_every_row_is_paid_nothing(kind):
    game = game_on(noise())
    assert game.step(model(CONSTANT[kind])).rewards == {SEAT: 0.0}, game.observe()


def test_numbers_by_chance_are_paid_about_nothing():
    paid = []
    for seed in range(12):
        game = game_on(noise(seed))
        body = "p = numpy.random.rand(len(rows)); return numpy.stack([1 - p, p], 1)"
        paid.append(game.step(model(body)).rewards[SEAT])
    assert abs(sum(paid) / len(paid)) < 0.05 and min(paid) < 0 < max(paid)


PICKLES = {
    "nothing": ("return None", NO_MODEL),
    "no pickle": ("import sys\nclass M: predict_proba = 1\nm = M(); m.frame = sys._getframe(); return m", NO_MODEL),
    "a pickle that fails": (
        "class M:\n  predict_proba = 1\n  def __reduce__(self): return (int, ('x',))\nreturn M()",
        "ValueError",
    ),
    "a pickle that becomes something else": (
        "class M:\n  predict_proba = 1\n  def __reduce__(self): return (dict, ())\nreturn M()",
        "AttributeError",
    ),
    "a large pickle": (
        "class M: predict_proba = 1\nm = M(); m.ballast = bytes(2**26); return m",
        "the model is larger than 64 megabytes",
    ),
}


@pytest.mark.parametrize("kind", PICKLES)
def test_pickles_are_opened_in_the_sandbox_alone(kind):
    body, said = PICKLES[kind]
    game = game_on(noise())
    game.step(code(body))
    assert game.observe() == f"the attempt failed. {said} attempts left: 4"


def test_classes_and_functions_of_the_program_go_with_the_model():
    body = """
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer
        def torques(rows): return (rows[:, :1] * rows[:, 1:2] - rows[:, 2:3] * rows[:, 3:])
        class Mine(LogisticRegression): pass
        return make_pipeline(FunctionTransformer(torques), FunctionTransformer(lambda t: t / 10), Mine()).fit(x, y)
    """
    game = make_game("data_science", {"dataset": "balance_scale", "deals": 1})
    game.reset(0)
    assert game.step(code(body)).rewards[SEAT] > 0.6
