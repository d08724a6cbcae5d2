"""What an attempt is worth: mean ROC AUC over five random halves of a data set.

Each half is fitted in a process of its own, which sees the labels of one half of the rows
and predicts the other half. The labels of the other half stay here, and so does the metric.
Rows are split class by class, so that every class is in both halves.

Results are remembered in the process: the same code on the same splits under the same limits
is run once, and scores the same the next time, even if it draws on chance.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from signal import Signals, strsignal

import numpy

from envs.data_science.answer import tidy
from envs.data_science.sandbox.pool import Fit, Limits, Sandbox, SandboxFailed, pool
from envs.data_science.tables import Table

SPLITS = 5
REMEMBERED = 4096
SLACK = 1e-6  # a probability may miss [0, 1] by a rounding error


@dataclass(frozen=True, slots=True)
class Result:
    """Exactly one of the two is set."""

    auc: float | None = None
    error: str = ""


class Faulty(Exception):
    """A fit went wrong, and it is the code's own fault; the message is what the coder is told."""


def halves(table: Table, deal: int, split: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Row numbers to train on and to predict. A class with an odd number of rows gives its last
    one to either half. The order within a half is drawn without a look at the classes: who
    knows how it is drawn learns nothing from it."""
    rng = random.Random(f"halves {table.name} {deal} {split}")
    train: list[int] = []
    test: list[int] = []
    for number in range(len(table.classes)):
        rows = [int(row) for row in numpy.flatnonzero(table.y == number)]
        rng.shuffle(rows)
        middle = (len(rows) + rng.randrange(2)) // 2
        train += rows[:middle]
        test += rows[middle:]
    for half in (train, test):
        half.sort()
        rng.shuffle(half)
    return numpy.array(train), numpy.array(test)


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
    with pool.sandbox(limits.walls) as sandbox:
        deadline = time.monotonic() + limits.seconds
        try:
            scores = [_score(sandbox, code, table, deal, split, limits, deadline) for split in range(SPLITS)]
        except Faulty as fault:
            return Result(error=str(fault))
    return Result(auc=float(numpy.mean(scores)))


def _score(sandbox: Sandbox, code: str, table: Table, deal: int, split: int, limits: Limits, deadline: float) -> float:
    train, test = halves(table, deal, split)
    seed = random.Random(f"chance {deal} {split}").randrange(2**31)
    fit = Fit(code, table.x[train], table.y[train], table.x[test], len(table.classes), seed, limits)
    try:
        status, sent = sandbox.run(fit, deadline)
    except TimeoutError:
        raise Faulty(f"TimeoutError: no result after {limits.seconds} seconds") from None
    except OverflowError:
        raise Faulty("the process sent more than predictions") from None
    return auc(table.y[test], _checked(status, sent, len(test), len(table.classes)))


def _checked(status: int, sent: bytes, rows: int, classes: int) -> numpy.ndarray:
    """What a fit sent, as probabilities - if that is what it is."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = Signals(number).name if number in Signals._value2member_map_ else str(number)
        raise Faulty(f"the process was killed by {name} ({strsignal(number) or 'unknown'})")
    if sent[:1] == b"E":
        line, _, text = sent[1:].decode("utf-8", "replace").partition("\n")
        raise Faulty(tidy(text) + (f" (line {line})" if re.fullmatch("[1-9][0-9]{0,3}", line) else ""))
    if sent[:1] != b"P" or len(sent) != 1 + 8 * rows * classes:
        raise Faulty("the process ended without predictions")
    probabilities = numpy.frombuffer(sent, dtype="<f8", offset=1).reshape(rows, classes)
    if not numpy.isfinite(probabilities).all():
        raise Faulty("ValueError: predict_proba gave NaN or infinity")
    if probabilities.min() < -SLACK or probabilities.max() > 1 + SLACK:
        raise Faulty("ValueError: predict_proba gave numbers outside [0, 1]")
    return probabilities
