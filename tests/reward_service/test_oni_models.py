"""Models distilled from an annotator's answers, and the questions they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_service.shapers.oni import Oni
from reward_service.shapers.oni.labels import Comparisons, KeptAnswers
from reward_service.shapers.oni.models import Answers, Running, Scorer
from reward_service.shapers.oni.settings import DistilSettings
from reward_service.shapers.oni.shaper import OniShaper
from tests.support.oni_games import BAD, GAME, GOOD, Answering, telling


@pytest.mark.parametrize("captions", [1, 2])
def test_the_gradient_is_that_of_the_loss(captions):
    rng = np.random.default_rng(3)
    distil = DistilSettings(hidden=7)
    scorer = Scorer.fresh(5, distil)
    scorer = Scorer(tuple(w.astype(np.float64) for w in scorer.weights), scorer.means, scorer.squares)
    asked = rng.integers(0, 9, (20, captions))
    answers = Answers(rng.standard_normal((9, 5)).astype(np.float16), asked, rng.random(20).astype(np.float32))
    chosen = np.arange(20)
    loss, gradient = scorer.loss_and_gradient(answers, chosen)
    for which, slope in enumerate(gradient):
        for place in np.ndindex(slope.shape):
            losses = []
            for change in (1e-5, -1e-5):
                moved = [weight.copy() for weight in scorer.weights]
                moved[which][place] += change
                losses.append(Scorer(tuple(moved), (), ()).loss_and_gradient(answers, chosen)[0])
            assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(slope[place], abs=1e-4)
    assert loss > 0


def test_ties_pull_scores_together_and_preferences_apart():
    rows = np.eye(3, 8, dtype=np.float16)
    distil = DistilSettings(hidden=16, learning_rate=0.02)
    answers = Answers(rows, np.array([[0, 1], [1, 2], [2, 1]]), np.array([1.0, 0.5, 0.5], np.float32))
    scorer, loss = Scorer.fresh(8, distil).trained(answers, 300, distil)
    best, one, other = scorer.scores(rows)
    assert best - one > 3 and abs(one - other) < 0.2 and scorer.steps == 300
    tie = Answers(rows, np.array([[1, 1]]), np.array([0.5], np.float32))
    assert scorer.loss_and_gradient(tie, np.array([0]))[0] == pytest.approx(np.log(2))
    assert loss < 1


def test_values_are_normalised_and_only_then_thresholded():
    """All raw scores lie far above the threshold of one deviation; few normalised ones do."""
    shaper = OniShaper(Oni(model="ranking", threshold=1.0, beta=0), GAME, Answering())
    told = [f"{GOOD} {number}" for number in range(4)] + [f"{BAD} {number}" for number in range(8)]
    w1, b1, w2, b2 = Scorer.fresh(384, shaper.settings.distil).weights
    shaper.scorer = Scorer((w1, b1, 5 * w2, b2 + 100), (), ())
    scores = shaper.scorer.scores(shaper.features.of(told)).astype(np.float64)
    normal = (scores - scores.mean()) / scores.std()
    (paid,) = shaper.shape([telling(0, *told)])
    assert paid.rewards == pytest.approx(0.4 * np.where(normal > 1, normal, 0), abs=1e-4)
    assert 0 < (paid.rewards > 0).sum() < 12 and scores.min() > 50
    more = scores[:3] + 7
    shaper.scorer = Scorer((w1, b1, 5 * w2, b2 + 107), (), ())
    (paid,) = shaper.shape([telling(1, *told[:3])])
    every = np.concatenate([scores, more])
    normal = (more - every.mean()) / every.std()
    assert paid.rewards == pytest.approx(0.4 * np.where(normal > 1, normal, 0), abs=1e-4)
    assert (paid.rewards > 0).any(), "mean and deviation go back to earlier batches"


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-100, 100), max_size=8), max_size=8))
def test_the_running_mean_and_deviation_are_those_of_all_values(batches):
    running, every = Running(10_000), np.array([value for each in batches for value in each])
    for each in batches:
        running.add(each)
    if len(every):
        assert running.mean == pytest.approx(every.mean(), abs=1e-9)
        assert running.variance == pytest.approx(every.var(), rel=1e-9, abs=1e-9)
    if len(every) and every.std() > 1e-3:
        normal = running.normalised(every)
        assert normal.mean() == pytest.approx(0, abs=1e-6) and normal.std() == pytest.approx(1)


def test_the_running_mean_forgets():
    running = Running(10)
    running.add([100.0] * 50)
    for _ in range(60):
        running.add([1.0, 3.0])
    assert running.mean == pytest.approx(2, abs=0.1) and running.variance == pytest.approx(1, abs=0.5)
    assert running.count == 10


def test_each_caption_is_compared_with_a_few_others_once():
    one, other = Comparisons(4, 50), Comparisons(4, 50)
    asked = [one.questions(f"caption {number}") for number in range(40)]
    assert asked == [other.questions(f"caption {number}") for number in range(40)]
    assert asked[0] == [] and len(asked[1]) == 1 and all(1 <= len(each) <= 4 for each in asked[5:])
    asked += [one.questions(f"caption {number}") for number in range(40)]
    pairs = {frozenset(pair) for each in asked for pair in each}
    assert len(pairs) == len({pair for each in asked for pair in each}), "never in both orders"
    assert all(len(pair) == 2 for pair in pairs), "never with itself"
    assert len(asked[40]) == 4, "whoever came too early makes up for it"
    for number in range(100):
        one.questions(f"later {number}")
    assert len(one.partners) == 50 and "caption 3" not in one.partners
    labels = KeptAnswers(3)
    labels.add(((str(number),), 1.0) for number in range(5))
    assert list(labels.answers) == [("2",), ("3",), ("4",)] and labels.of("1") == 0.0
