"""What an attempt is worth: mean ROC AUC over five random halves of a data set, after a rehearsal.

    rehearsal, made-up classes --- fails ---> the error is told, and another attempt may follow
              | goes well
    five random halves ----------- fails ---> no more is told than that; no attempt follows
              | go well
            score, and no attempt follows

So whatever the coder is told before its last attempt was found without the real classes: it
carries no bit about them, whatever the program says, and however many attempts there are.

Each half is fitted in a process of its own, which sees no row of the other half; another
process predicts those, and sees no class. Their classes stay here, and so does the metric.

Results are remembered in the process: the same code on the same splits under the same limits
is run once, and scores the same the next time, even if it draws on chance. Only one that the clock ended is
run again, for then the machine may have been busy.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy

from envs.data_science.claims import TOO_LARGE, TOO_LATE, TOO_LONG, Faulty, model_of, probabilities_of
from envs.data_science.sandbox.pool import Fit, Limits, Prediction, Sandbox, SandboxFailed, pool
from envs.data_science.splits import halves, rehearsal
from envs.data_science.tables import Table

SPLITS = 5
REMEMBERED = 4096
UNTOLD = "the rehearsal went well, the scored run did not."


class Late(Faulty):
    """By the clock, and not by the time of a processor."""


@dataclass(frozen=True, slots=True)
class Result:
    """Exactly one of `auc` and `error` is set."""

    auc: float | None = None
    error: str = ""
    last: bool = False  # it was run with the real classes: no attempt may follow
    late: bool = False  # the clock ended it, which the machine's other work may be to blame for


def auc(labels: numpy.ndarray, probabilities: numpy.ndarray) -> float:
    """ROC AUC: of the second class if there are two, else the mean over classes of one against the rest."""
    from sklearn.metrics import roc_auc_score

    classes = probabilities.shape[1]
    ones = [1] if classes == 2 else range(classes)
    return float(numpy.mean([roc_auc_score(labels == one, probabilities[:, one]) for one in ones]))


def evaluate(code: str, table: Table, deal: int, limits: Limits) -> Result:
    """Run the code on every split, or remember what came of it."""
    key = (code, table.name, id(table), deal, limits)
    with _lock:
        if key in _remembered:
            _remembered.move_to_end(key)
            return _remembered[key][0]
    result = _evaluate(code, table, deal, limits)
    if result.late:
        return result
    with _lock:
        _remembered[key] = (result, table)  # the table is held, so that its id stays its own
        while len(_remembered) > REMEMBERED:
            _remembered.popitem(last=False)
    return result


_remembered: OrderedDict[tuple, tuple[Result, Table]] = OrderedDict()
_lock = threading.Lock()


def forget() -> None:
    """Forget every result; the next attempts are run again."""
    with _lock:
        _remembered.clear()


def _evaluate(code: str, table: Table, deal: int, limits: Limits) -> Result:
    try:
        return _attempt(code, table, deal, limits)
    except SandboxFailed:  # a keeper may be killed from outside, by the machine's out-of-memory killer for one
        return _attempt(code, table, deal, limits)


def _attempt(code: str, table: Table, deal: int, limits: Limits) -> Result:
    """First the rehearsal, with the processor time of one of the scored fits; what goes wrong in it is told."""
    share = replace(limits, seconds=math.ceil(limits.seconds / SPLITS))
    with pool.sandbox(limits.walls) as sandbox:
        deadline = time.monotonic() + limits.seconds
        try:
            _score(sandbox, code, rehearsal(table, deal), deal, SPLITS, share, deadline)
        except Faulty as fault:
            return Result(error=str(fault), late=isinstance(fault, Late))
        deadline = time.monotonic() + SPLITS * limits.seconds  # as each fit had in the rehearsal
        try:
            scores = [_score(sandbox, code, table, deal, split, limits, deadline) for split in range(SPLITS)]
        except Faulty as fault:
            return Result(error=UNTOLD, last=True, late=isinstance(fault, Late))
    return Result(auc=float(numpy.mean(scores)), last=True)


def _score(sandbox: Sandbox, code: str, table: Table, deal: int, split: int, limits: Limits, deadline: float) -> float:
    """ROC AUC of one split. The rows to be predicted leave this process when the process of the fit has ended."""
    train, test = halves(table, deal, split)
    seed, lines = random.Random(f"chance {deal} {split}").randrange(2**31), code.count("\n") + 1
    fit = Fit(code, table.x[train], table.y[train], seed, limits)
    model = model_of(*_run(sandbox, fit, deadline), lines)
    prediction = Prediction(model, table.x[test], len(table.classes), seed, limits)
    sent = _run(sandbox, prediction, deadline)
    return auc(table.y[test], probabilities_of(*sent, lines, len(test), len(table.classes)))


def _run(sandbox: Sandbox, request: Fit | Prediction, deadline: float) -> tuple[int, bytes]:
    try:
        return sandbox.run(request, deadline)
    except TimeoutError:
        raise Late(TOO_LATE) from None
    except OverflowError:
        raise Faulty(TOO_LARGE if isinstance(request, Fit) else TOO_LONG) from None
