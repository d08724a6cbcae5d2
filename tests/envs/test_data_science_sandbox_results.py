"""What comes back from model-written code: nothing after its time, nothing that is not checked, nothing unpickled."""

from __future__ import annotations

import os
import time

import pytest

from envs.data_science import scoring
from envs.data_science.claims import MISSHAPEN, TOO_LATE
from envs.data_science.sandbox.pool import Limits, Pool
from tests.support.sandbox_payloads import GOOD, TABLE, WALLS, WRITE_RESULTS, code, error_of, fit, gone, in_session
from tests.support.sandbox_payloads import closed_in_the_end as closed_in_the_end
from tests.support.sandbox_payloads import each_of_the_walls as each_of_the_walls
from tests.support.sandbox_payloads import nothing_remembered as nothing_remembered


def test_what_uses_up_time_is_killed_with_all_that_is_in_it(walls):
    with Pool().sandbox(walls) as sandbox:
        session = sandbox.process.pid
        assert in_session(session)
        spin = """
            import signal, time
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                try: signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            while True: time.sleep(0.001)
        """
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            sandbox.run(fit(spin), started + 1)
        assert 0.9 < time.monotonic() - started < 10
        assert gone(session)


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2, 15]); signal.raise_signal(signal.SIGSTOP)",
        "import sys\nwhile True: print('x' * 10**6); print('x' * 10**6, file=sys.stderr)",
    ],
)
def test_time_runs_out_in_words(body):
    before = time.monotonic()
    assert error_of(body, WALLS[0], seconds=1) == TOO_LATE
    assert time.monotonic() - before < 30


def test_memory_is_bounded(walls):
    assert error_of("x = bytearray(4 << 30)", walls).startswith("MemoryError")
    assert error_of("import numpy; x = numpy.ones(1 << 29)", walls).startswith("MemoryError")
    hoard = "hoard = []\nwhile True: hoard.append(b'x' * (1 << 24))"
    assert error_of(hoard, walls, megabytes=1024).startswith("MemoryError")
    assert scoring.evaluate(GOOD, TABLE, 0, Limits(walls, 30, 1024)).auc > 0.9, "what remains is enough to work with"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import os; os._exit(0)", "the process ended without a model"),
        ("import os; os._exit(77)", "the process ended without a model"),
        ("import os; os.abort()", "the process was killed by SIGABRT (Aborted)"),
        ("import ctypes; ctypes.string_at(0)", "the process was killed by SIGSEGV (Segmentation fault)"),
        ("import signal; signal.raise_signal(9)", TOO_LATE),
        ("import sys; sys.exit('bye')", "SystemExit (line 2)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (line 2)"),
        ("class E(Exception):\n  def __str__(self): raise E\nraise E", "Exception (line 4)"),
        ("class M(type):\n  __name__ = 3\nclass E(Exception, metaclass=M): pass\nraise E",
         "the process ended without a model"),
        (WRITE_RESULTS.format(text="b'x' * 10**6"), "the process ended without a model"),
        (WRITE_RESULTS.format(text="b'x' * 10**8"), "the model is larger than 64 megabytes"),
        (WRITE_RESULTS.format(text="b'P' + bytes(8)") + "os._exit(0)", "the process ended without a model"),
        (WRITE_RESULTS.format(text="b'M' + bytes(8)") + "os._exit(0)", "UnpicklingError"),
        (WRITE_RESULTS.format(text="b'Mcos\\nsystem\\n(S\"touch /tmp/parley-escape\"\\ntR.'") + "os._exit(0)",
         "AttributeError"),
        (WRITE_RESULTS.format(text="b'E\\xff\\x00\\n/root/x y'") + "os._exit(0)", "Exception"),
        (WRITE_RESULTS.format(text="b'E5\\nValueError'") + "os._exit(0)", "ValueError (line 5)"),
        (WRITE_RESULTS.format(text="b'E99\\nKeyError'") + "os._exit(0)", "KeyError"),
    ],
)  # fmt: skip
def test_what_comes_back_is_a_claim(body, said):
    assert error_of(body, WALLS[0]) == said
    assert not os.path.exists("/tmp/parley-escape")


CLASSIFIER = """
class Model:
    def predict_proba(self, x):
        import numpy
        return {given}
return Model()
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("numpy.full((len(x), 3), numpy.nan)", "ValueError: predict_proba gave NaN or infinity"),
        ("numpy.full((len(x), 3), numpy.inf)", "ValueError: predict_proba gave NaN or infinity"),
        ("numpy.full((len(x), 3), 1.1)", "ValueError: predict_proba gave numbers outside [0, 1]"),
        ("numpy.full((len(x), 3), -0.1)", "ValueError: predict_proba gave numbers outside [0, 1]"),
        ("numpy.zeros((len(x), 2))", MISSHAPEN),
        ("numpy.zeros((10**5, 3))", MISSHAPEN),
        ("numpy.zeros(len(x))", MISSHAPEN),
        ("[['a'] * 3] * len(x)", "ValueError"),
        ("[[Model()] * 3] * len(x)", "TypeError"),
        ("None", MISSHAPEN),
    ],
)
def test_predictions_are_checked(given, said):
    assert error_of(CLASSIFIER.format(given=given), WALLS[0]) == said


def test_an_object_that_runs_code_when_unpickled_runs_it_in_the_sandbox(tmp_path):
    marker = tmp_path / "marker"
    body = f"""
        from sklearn.dummy import DummyClassifier
        class Evil(DummyClassifier):
            def __reduce__(self): return (open, ({str(marker)!r}, 'w'))
        return Evil().fit(x, y)
    """
    assert error_of(body, WALLS[0]) == "PermissionError"
    assert not marker.exists()


def test_the_metric_cannot_be_patched_and_nothing_is_remembered_between_splits(walls):
    """Each split is a process of its own: what one leaves behind, labels for instance, no other finds."""
    body = """
        import json, numpy, sklearn.metrics
        from sklearn.dummy import DummyClassifier
        if hasattr(json, "left_behind"): raise Exception("escaped")
        json.left_behind = y
        sklearn.metrics.roc_auc_score = numpy.mean = lambda *a, **k: 1.0
        return DummyClassifier().fit(x, y)
    """
    assert scoring.evaluate(code(body), TABLE, 0, Limits(walls, 30, 2048)).auc == 0.5
