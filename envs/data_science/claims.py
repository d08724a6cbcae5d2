"""What a sandbox sent, read as what it claims to be; and in which words a coder is told that it is not.

The words are fixed: a sentence of this file, or the name of an error class from a list and the
number of a line. Whatever a program calls its errors, and whatever they say, none of its own
text becomes an observation.
"""

from __future__ import annotations

import builtins
import os
from signal import SIGKILL, Signals, strsignal

import numpy

from envs.data_science.sandbox.pool import LARGEST_MODEL

ERRORS = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
) | {
    *("NotFittedError", "InvalidParameterError", "UnsetMetadataPassedError", "PositiveSpectrumError"),  # scikit-learn
    *("AxisError", "ComplexWarning", "DTypePromotionError", "LinAlgError"),  # numpy
    *("ArpackError", "ArpackNoConvergence", "NoConvergence", "QhullError"),  # scipy
    *("PicklingError", "UnpicklingError"),
    *("EmptyDataError", "IncompatibilityWarning", "IndexingError", "InvalidIndexError", "MergeError"),  # pandas
    *("ParserError", "SpecificationError", "UndefinedVariableError"),
}
SLACK = 1e-6  # a probability may miss [0, 1] by a rounding error
NO_MODEL = "build_model must return a fitted scikit-learn classifier that has predict_proba and can be pickled"
NO_PREDICTIONS = "the process ended without predictions"
MISSHAPEN = "ValueError: predict_proba must give a row for each row, and a column for each of classes_"
TOO_LATE = "TimeoutError: the time is used up"
TOO_LARGE = f"the model is larger than {LARGEST_MODEL // 2**20} megabytes"
TOO_LONG = "the process sent more than predictions"


class Faulty(Exception):
    """An attempt went wrong, and it is the code's own fault; the message is what the coder is told."""


def model_of(status: int, sent: bytes, lines: int) -> bytes:
    """The pickle that a fit sent. Nobody but another sandbox may open it."""
    _look_for_a_fault(status, sent, lines)
    if sent[:1] != b"M":
        raise Faulty("the process ended without a model")
    return sent[1:]


def probabilities_of(status: int, sent: bytes, lines: int, rows: int, classes: int) -> numpy.ndarray:
    _look_for_a_fault(status, sent, lines)
    if sent[:1] != b"P" or len(sent) != 1 + 8 * rows * classes:
        raise Faulty(NO_PREDICTIONS)
    probabilities = numpy.frombuffer(sent, dtype="<f8", offset=1).reshape(rows, classes)
    if not numpy.isfinite(probabilities).all():
        raise Faulty("ValueError: predict_proba gave NaN or infinity")
    if probabilities.min() < -SLACK or probabilities.max() > 1 + SLACK:
        raise Faulty("ValueError: predict_proba gave numbers outside [0, 1]")
    return probabilities


def _look_for_a_fault(status: int, sent: bytes, lines: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == SIGKILL:  # which is how the limit of processor time ends it
            raise Faulty(TOO_LATE)
        name = Signals(number).name if number in Signals._value2member_map_ else str(number)
        raise Faulty(f"the process was killed by {name} ({strsignal(number) or 'unknown'})")
    if sent[:1] == b"U":
        raise Faulty(NO_MODEL)
    if sent[:1] == b"S":
        raise Faulty(MISSHAPEN)
    if sent[:1] == b"E":
        line, *names = sent[1:].decode("utf-8", "replace").split("\n")
        error = next((name for name in names if name in ERRORS), "Exception")
        there = line.isascii() and line.isdigit() and len(line) <= 4 and 1 <= int(line) <= lines
        raise Faulty(error + (f" (line {int(line)})" if there else ""))
