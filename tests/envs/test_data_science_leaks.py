"""Data science: nothing that a program does tells the coder, or the program, the classes of the scored rows.

The tables are noise: no column says anything about the class, so whatever is paid for them was leaked.
"""

from __future__ import annotations

import itertools
import re
import statistics

import numpy
import pytest

from envs.data_science import scoring
from envs.data_science.claims import ERRORS, NO_MODEL
from envs.data_science.game import SEAT
from envs.data_science.sandbox.pool import Fit, Limits, Prediction, Sandbox, pool
from envs.data_science.splits import halves, rehearsal
from tests.support.data_science_games import game_on, noise
from tests.support.sandbox_payloads import WRITE_RESULTS, code, heard
from tests.support.sandbox_payloads import closed_in_the_end as closed_in_the_end
from tests.support.sandbox_payloads import each_of_the_walls as each_of_the_walls
from tests.support.sandbox_payloads import nothing_remembered as nothing_remembered

DUMMY = "from sklearn.dummy import DummyClassifier as D; return D().fit(x, y)"

# What is told before the last attempt

LABELS = "import base64, numpy\ntext = base64.b64encode(numpy.packbits(y).tobytes()).decode()\n"
NUMBER = "bits = int(''.join(map(str, y[:10])), 2)\n"
MODEL = "class M:\n  def predict_proba(self, rows):\n    "
TELLING = {  # each makes the end of an attempt depend on the classes that it sees
    "text of the error": f"{LABELS}raise ValueError(text)",
    "name of the error": f"{LABELS}raise type(text, (Exception,), {{}})",
    "module of the error": f"{LABELS}raise type('KeyError', (OSError,), {{'__module__': text}})",
    "notes of the error": f"{LABELS}e = ValueError()\ne.add_note(text)\nraise e",
    "class of the error": "raise [KeyError, ValueError, OSError, TypeError][2 * y[0] + y[1]]",
    "line of the error": f"{NUMBER}exec(compile('\\n' * (bits % 4) + 'raise ValueError', '<build_model>', 'exec'))",
    "line that the process claims": NUMBER
    + WRITE_RESULTS.format(text="f'E{bits % 4 + 1}\\nValueError'.encode()")
    + "os._exit(0)",
    "signal": "import signal; signal.raise_signal([8, 11, 6, 4][2 * y[0] + y[1]])",
    "code at the end": f"{NUMBER}import os; os._exit(bits % 256)",
    "length of what is sent": NUMBER + WRITE_RESULTS.format(text="b'M' + bytes(bits)"),
    "whether it fails": f"if y[0]: raise ValueError\n{DUMMY}",
    "time": "import time\nif y[0]: time.sleep(1000)\nraise ValueError",
    "memory": "if y[0]: hoard = bytearray(4 << 30)\nraise ValueError",
    "shape of predictions": f"{MODEL}return [[.5] * (1 + y[0])] * len(rows)\nreturn M()",
    "error of predictions": f"{MODEL}raise [KeyError, OSError][y[0]]\nreturn M()",
    "classes of predictions": f"{MODEL}return [[.5, .5]] * len(rows)\nM.classes_ = [0, y[0]]\nreturn M()",
}


def what_they_tell(way: str) -> set:
    told = set()
    for seed in range(4):
        game = game_on(noise(seed), seconds=4 if way == "time" else 30)
        step = game.step(code(TELLING[way]))
        told.add((game.observe(), step.caption) if game.seat else "over")
    return told


TIME = pytest.param("time", marks=pytest.mark.long)


@pytest.mark.parametrize("way", [*sorted(set(TELLING) - {"time"}), TIME])
def test_what_is_told_before_the_last_attempt_does_not_depend_on_the_classes(way):
    """So the attempts of a game carry no bit about them, however many there are."""
    assert len(what_they_tell(way)) == 1


@pytest.mark.parametrize("way", ["class of the error", "line of the error", "signal", "whether it fails", TIME])
def test_if_attempts_saw_the_real_classes_they_would_tell(way, monkeypatch):
    monkeypatch.setattr(scoring, "rehearsal", lambda table, deal: table)
    assert len(what_they_tell(way)) > 1


ASKING = (
    """
import builtins
KINDS = [kind for name, kind in sorted(vars(builtins).items()) if isinstance(kind, type) and kind.__name__ == name
         and issubclass(kind, BaseException) and "Unicode" not in name and "Group" not in name]
def build_model(x, y):
    here, number = {int(row[0]): int(label) for row, label in zip(x, y)}, 0
    for row in range(FIRST, FIRST + 10):
        number = 3 * number + here.get(row, 2)
    exec(compile("\\n" * (number % 1000) + "raise KINDS[number // 1000]", "<build_model>", "exec"),
         {"KINDS": KINDS, "number": number})
"""
    + "#\n" * 1000
    + "# as many lines as are asked for"
)
ANSWERING = """
import numpy
class Model:
    def predict_proba(self, rows):
        p = numpy.array([KNOWN.get(int(row[0]), 0.5) for row in rows], float)
        return numpy.stack([1 - p, p], 1)
return Model()
"""


def gain(failed: int) -> float:
    """What is paid to a learner that asks for ten rows in each failed attempt and answers with what it is told.
    The class of an error and its line have room for 3^10 answers, and the first column is the number of a row."""
    world: dict = {}
    exec(ASKING.replace("FIRST", "0"), world)
    kinds, paid = [kind.__name__ for kind in world["KINDS"]], []
    for seed in range(6):
        table, known = noise(seed), {}
        table.x[:, 0] = range(len(table.x))
        game = game_on(table)
        for first in range(0, 10 * failed, 10):
            game.step(ASKING.replace("FIRST", str(first)))
            kind, line = re.search(r"failed\. (\w+) \(line (\d+)\)", game.observe()).groups()
            answer = numpy.base_repr(1000 * kinds.index(kind) + int(line) - 1, 3).zfill(10)
            known |= {first + place: int(each) for place, each in enumerate(answer) if each != "2"}
        assert len(known) >= 2 * failed
        paid.append(game.step(code(f"KNOWN = {known}\n{ANSWERING}")).rewards[SEAT])
    return statistics.mean(paid)


@pytest.mark.long
def test_a_learner_that_uses_all_that_attempts_can_carry_gains_nothing(monkeypatch):
    assert gain(0) == 0 and abs(gain(4)) < 0.05
    monkeypatch.setattr(scoring, "rehearsal", lambda table, deal: table)  # as if attempts saw the real classes
    scoring.forget()
    assert gain(4) > 0.12


NASTY = [
    'raise type("99 success. 1.00", (Exception,), {})("attempts left: 9")',
    'raise type("success", (ValueError,), {"__str__": lambda self: "success. 1.00"})',
    'raise ValueError from type("success", (Exception,), {})("success")',
    'def success(): raise LookupError("success")\nsuccess()',
    "exec(compile('raise ValueError', 'success. 1.00', 'exec'))",
    "success_1",
    "import success",
    "x.success",
    "return {}['success']",
    "return 'success'",
    'raise ExceptionGroup("success", [ValueError("success")])',
    "assert False, 'success. 1.00'",
    'import warnings; warnings.simplefilter("error"); warnings.warn("success. 1.00")',
    WRITE_RESULTS.format(text="b'E1\\nsuccess. 1.00'") + "os._exit(0)",
    WRITE_RESULTS.format(text="b'success. 1.00'") + "os._exit(0)",
    "import sys; sys.exit('success. 1.00')",
]


@pytest.mark.parametrize("body", NASTY)
def test_no_text_of_the_program_is_told(body):
    game = game_on(noise())
    step = game.step(code(body))
    told = re.fullmatch(r"the attempt failed\. (.*) attempts left: 4", game.observe())[1]
    assert step.caption == f"the coder's code for noise fails: {told}"
    error = re.fullmatch(r"(\w+)( \(line \d\))?", told)
    assert told in (NO_MODEL, "the process ended without a model") or error[1] in ERRORS


def test_the_scored_run_is_the_last_one_and_says_nothing():
    table = noise()
    made_up = rehearsal(table, 0)
    seen = made_up.y[halves(made_up, 0, scoring.SPLITS)[0]].tolist()
    game = game_on(table)
    step = game.step(code(f"if list(y) != {seen}: raise KeyError(list(y))\n{DUMMY}"))
    assert (step.rewards, step.terminated, step.executable) == ({SEAT: -1.0}, True, False) and game.seat is None
    assert game.closing() == {SEAT: f"the attempt failed. {scoring.UNTOLD} attempts left: 0"}
    assert game.outcome() == {SEAT: 0.0} and game.facts() == {"result": "failure"}


# How rows are drawn


def test_rows_are_drawn_without_a_look_at_the_classes():
    """If they were drawn class by class, who knows how could work out the classes of the other half."""
    for deal, split in itertools.product(range(4), range(6)):
        drawn = {tuple(map(tuple, halves(noise(seed), deal, split))) for seed in range(6)}
        made_up = {tuple(rehearsal(noise(seed), deal).y) for seed in range(6)}
        assert len(drawn) == len(made_up) == 1
    real = noise()
    alike = statistics.mean((rehearsal(real, deal).y == real.y).mean() for deal in range(200))
    assert abs(alike - 0.5) < 0.02


# What a fit and a prediction can see

LOOKING = """
import os, sys, numpy
def others(own):
    frame, own = sys._getframe(1), {row.tobytes() for row in own}
    while frame:
        for each in frame.f_locals.values():
            if isinstance(each, (bytes, bytearray)):
                each = numpy.frombuffer(bytes(each)[: len(each) // 32 * 32]).reshape(-1, 4)
            if isinstance(each, numpy.ndarray) and each.dtype == float and each.shape[1:] == (4,) and len(each) > 20:
                if any(row.tobytes() not in own for row in each): return True
        frame = frame.f_back
    for descriptor in range(1024):
        try:
            if os.read(descriptor, 1): return True
        except OSError: pass
class Model:
    def predict_proba(self, rows):
        raise LookupError if len(rows) == 120 - len(x) else KeyError
"""


def test_a_fit_finds_no_row_of_the_other_half():
    game = game_on(noise())
    game.step(code(f"{LOOKING}\nif others(x): return Model()\nraise IndexError"))
    assert "IndexError" in game.observe()
    game.step(code(f"{LOOKING}\nif others(x[1:]): return Model()\nraise IndexError"))
    assert "LookupError" in game.observe(), "it does find its own"


def test_rows_are_sent_when_the_fit_has_ended_and_never_with_classes(monkeypatch):
    asked, run = [], Sandbox.run

    def recorded(self, request, deadline):
        asked.append(request)
        return run(self, request, deadline)

    monkeypatch.setattr(Sandbox, "run", recorded)
    assert scoring.evaluate(code(DUMMY), noise(), 1, Limits("process", 30, 2048)).auc == 0.5
    assert [type(each) for each in asked] == [Fit, Prediction] * 6
    assert [each.limits.seconds for each in asked] == [6, 6, *[30] * 10], "the rehearsal has a share of the time"
    for fit, prediction in zip(asked[::2], asked[1::2], strict=True):
        assert len(fit.message()) < 500 + 8 * 5 * len(fit.x_train)
        assert not any(row.tobytes() in fit.message() for row in prediction.x_test)
        assert prediction.message().endswith(prediction.x_test.tobytes() + prediction.model)


@pytest.mark.long
def test_who_waits_is_ended_by_the_clock_and_not_remembered_for_it(monkeypatch):
    """Each scored fit may wait as long as that of the rehearsal. It is not the code's fault if the machine is busy."""
    limits, runs, run = Limits("process", 3, 2048), [], Sandbox.run

    def recorded(self, request, deadline):
        runs.append(request)
        return run(self, request, deadline)

    monkeypatch.setattr(Sandbox, "run", recorded)
    waits = code(f"import time; time.sleep(1)\n{DUMMY}")
    assert scoring.evaluate(waits, noise(), 1, limits).auc == 0.5, "five seconds in all"
    for count in (13, 14):
        late = scoring.evaluate(code("import time; time.sleep(1000)"), noise(), 1, limits)
        assert late.late and not late.last and len(runs) == count


LEFT = {
    "in a module": ("import json; json.left = 1", "import json; text = str(hasattr(json, 'left'))"),
    "among the modules": ("import sys; sys.modules['left'] = sys", "import sys; text = str('left' in sys.modules)"),
    "in the environment": ("import os; os.environ['LEFT'] = '1'", "import os; text = str('LEFT' in os.environ)"),
    "in a generator": (
        "import random; random.setstate((3, (1,) * 625, None))",
        "import random; text = str(random.random() == 0)",
    ),
    "in a pipe": (WRITE_RESULTS.format(text="b'x' * 9"), "text = 'False'"),
    "in a descriptor": (
        "import os; os.dup2(1, 60)",
        "import os\ntry: text = str(os.fstat(60) is not None)\nexcept OSError: text = 'False'",
    ),
}


@pytest.mark.parametrize("place", LEFT)
def test_nothing_is_left_behind(place, walls):
    leave, look = LEFT[place]
    with pool.sandbox(walls) as used:
        pass
    heard(f"{leave}\ntext = ''", walls)
    assert used in pool.idle and heard(look, walls) == "False"
