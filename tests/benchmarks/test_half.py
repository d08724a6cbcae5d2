"""The experiment on half precision: its pairs, its statistics, its table."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from benchmarks.half import ARMS, GAMES, SEEDS, WARM_STARTS, Trial, gained, page
from benchmarks.lab.store import Store
from benchmarks.lab.strata import stratified
from benchmarks.lab.trial import Record


def test_arms_differ_in_what_is_compared_alone():
    trials = [Trial(game, arm, seed) for game in GAMES for arm in ARMS for seed in SEEDS]
    assert len({trial.config.model.embedded.seed for trial in trials}) == WARM_STARTS
    for game in GAMES:
        plain, corrected = (Trial(game, arm, 100).config for arm in ("bfloat16", "bfloat16, corrected"))
        assert plain.learner.dtype == plain.rollout.engine.dtype == "bfloat16"
        assert not plain.learner.loss.correct_on_policy
        plain.learner.loss.correct_on_policy = True
        assert plain == corrected


def test_pairs_are_of_one_game_and_seed_and_games_are_strata(tmp_path):
    store = Store(tmp_path / "half.jsonl")
    for game, arm, seed, final in [
        ("demo", "bfloat16", 100, 0.5),
        ("demo", "bfloat16, corrected", 100, 0.6),
        ("demo", "bfloat16", 101, 0.5),
        ("demo", "bfloat16, corrected", 101, 0.8),
        ("demo", "bfloat16, corrected", 102, 0.0),
        ("bargaining", "bfloat16", 100, 0.5),
        ("bargaining", "bfloat16, corrected", 100, 0.4),
        ("bargaining", "bfloat16", 101, 0.4),
        ("bargaining", "bfloat16, corrected", 101, 0.5),
    ]:
        trial, figures = Trial(game, arm, seed), {"logprob_gap_mean": 0.01}
        store.put(trial, Record(asdict(trial), final=final, untrained={"score": 0.1}, figures=figures))
    found = gained(store, "bfloat16, corrected", "bfloat16")
    assert found == [pytest.approx([0.1, 0.3]), pytest.approx([-0.1, 0.1])]
    mean, error = stratified(found)
    assert mean == pytest.approx(0.1) and error == pytest.approx((0.01 + 0.01) ** 0.5 / 2)
    assert "bfloat16, corrected against bfloat16: +10.0 ± 30.4 points" in page(store)
    assert "against float32" not in page(store)
