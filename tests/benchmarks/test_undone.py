"""Which recorded runs count as undone, and that it is the very same ones that are run again."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from benchmarks.lab.store import Store, _key
from benchmarks.lab.trial import Record
from benchmarks.undone import RATE, THEN, best_and_last, lost, page, trial_of, undone


@pytest.mark.parametrize(
    ("outcomes", "lost"),
    [
        ([0.1, 0.2, 0.6, 0.6, 0.6, 0.0, 0.1, 0.0], True),
        ([0.1, 0.2, 0.6, 0.6, 0.6, 0.3, 0.3, 0.3], False),  # half is left
        ([0.1, 0.2, 0.2, 0.2, 0.1, 0.0, 0.0, 0.0], False),  # it had not won
        ([0.6, 0.6, 0.6], False),
    ],
)
def test_a_run_is_undone_if_it_had_won_and_lost_most_of_it(outcomes, lost):
    assert undone(Record({}, outcomes)) is lost


def test_best_and_last_are_of_three_batches_in_a_row():
    assert best_and_last(Record({}, [0.9, 0.0, 0.6, 0.6, 0.6, 0.1, 0.2])) == pytest.approx((0.6, 0.3))


def test_the_runs_that_are_run_again_are_those_that_were_recorded(tmp_path):
    found = lost(Store(THEN))
    assert len(found) == 19
    for record in found:
        trial = trial_of(record)
        assert _key(asdict(trial)) == _key(record.trial)
        assert (trial.rate, trial.config.learner.loss.kl_guard) == (RATE, 0.02)
    assert page(THEN, Store(tmp_path / "none.jsonl")).endswith(
        "undone then: 19 of the 308 that had won, among 371 runs; now: 0 of the 0 that were run again"
    )
