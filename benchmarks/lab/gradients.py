"""How good a method's gradient is before anything is learned: its cosine to a large sample's, and its noise.

Weights stay as they are. All methods that play tasks once get the same episodes; those that
play a task several times get as many of their own. A method first sees `WARM_UP` batches, for its
window, its intention space or its critic; then on each of `BATCHES` more its gradient is taken.

    true        policy gradient of the outcome, leave-one-out baseline, over `LARGE` episodes
    cosine      of each batch's gradient with it, the mean over batches; 0 of a batch that nobody earned in
    noise       trace of the gradients' covariance over the squared length of their mean
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import lru_cache

import numpy as np

from benchmarks.lab.trainee import Trainee
from benchmarks.lab.trial import Method, Record, Trial, warm_start

WARM_UP, BATCHES, LARGE_BATCHES = 6, 12, 64
LARGE_FIRST = 500_000  # tickets of the large sample: no task of theirs is met elsewhere
OUTCOME = Method("outcome", ("learner.credit.baseline=leave_one_out",))


def measured(trial: Trial) -> Record:
    """Its figures: cosine, cosine_spread (the standard deviation over batches) and noise."""
    true = true_gradient(replace(trial, method=OUTCOME), LARGE_BATCHES, LARGE_FIRST)
    trainee = Trainee(trial.config, warm_start(trial), trial.method.group_size)
    for _ in range(WARM_UP):
        trainee.gradient(trainee.next_batch())
    found = np.stack([trainee.gradient(trainee.next_batch()) for _ in range(BATCHES)])
    length = np.linalg.norm(found, axis=1) * np.linalg.norm(true)
    cosines = np.divide(found @ true, length, out=np.zeros(len(found)), where=length > 0)
    mean = found.mean(axis=0)
    # the squared length of a mean of n is too large by trace / n
    trace = float(((found - mean) ** 2).sum() / (len(found) - 1))
    squared = max(float(mean @ mean) - trace / len(found), 1e-12)
    figures = {"cosine": cosines.mean(), "cosine_spread": cosines.std(ddof=1), "noise": trace / squared}
    return Record(asdict(trial), figures={name: float(value) for name, value in figures.items()})


@lru_cache(maxsize=1)  # the methods of a game come one after the other
def true_gradient(trial: Trial, batches: int, first: int) -> np.ndarray:
    """Of so many batches, the tickets of which are from `first` on."""
    trainee = Trainee(trial.config, warm_start(trial))
    size, total = trial.sizes.batch, 0.0
    for batch in range(batches):
        total = total + trainee.gradient(trainee.play(trainee.tickets(size, first + batch * size)))
    return total / batches


def told(record: Record) -> str:
    return f"cosine {record.figures['cosine']:.2f}, noise {record.figures['noise']:.1f}"
