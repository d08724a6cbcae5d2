"""Intervals against other sources: scipy, the printed table, and counting."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from cluster.record.statistics import mean_interval, wilson_interval
from cluster.report.results import Tally, interval


@pytest.mark.parametrize(("wins", "games"), [(0, 1), (1, 1), (0, 400), (400, 400), (113, 400), (199, 400), (3, 7)])
def test_wilson_interval_is_scipys(wins, games):
    expected = stats.binomtest(wins, games).proportion_ci(0.95, method="wilson")
    assert wilson_interval(wins, games) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_interval_contains_the_rate_and_stays_a_probability():
    for games in range(1, 60):
        for wins in range(games + 1):
            low, high = wilson_interval(wins, games)
            assert 0 <= low <= wins / games <= high <= 1
            assert low < high


def test_wilson_interval_covers_the_true_rate_about_as_often_as_it_says():
    rng, covered = random.Random(3), 0
    for _ in range(2000):
        wins = sum(rng.random() < 0.3 for _ in range(100))
        low, high = wilson_interval(wins, 100)
        covered += low <= 0.3 <= high
    assert 0.93 < covered / 2000 < 0.97


def test_wilson_interval_refuses_impossible_counts():
    with pytest.raises(ValueError, match="5 wins in 4 games"):
        wilson_interval(5, 4)
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_mean_interval_from_the_printed_t_table():
    # t(.975) with 1, 4 and 9 degrees of freedom: 12.706, 2.776, 2.262
    assert mean_interval([0.0, 2.0]) == pytest.approx((1 - 12.7062, 1 + 12.7062), rel=1e-5)
    assert mean_interval([1, 2, 3, 4, 5])[1] == pytest.approx(3 + 2.776445 * math.sqrt(2.5 / 5), rel=1e-6)
    assert mean_interval(range(10))[0] == pytest.approx(4.5 - 2.262157 * math.sqrt(82.5 / 9 / 10), rel=1e-6)


def test_equal_values_have_no_spread():
    assert mean_interval([0.4, 0.4, 0.4]) == pytest.approx((0.4, 0.4))


def test_one_value_says_nothing_of_its_spread():
    assert mean_interval([0.5]) == (-math.inf, math.inf)
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])


def test_the_seats_of_one_game_are_one_case_of_a_group():
    """What one of two rivals wins the other loses, so they are no two trials of what was asked."""
    tally = Tally()
    for outcome in (0.2, 0.6, 0.7, 0.5):
        seats = [("alice", outcome), ("bob", 0.1)]
        game = {"update": 1, "held_out": False, "failure": None, "game": "duel", "tokens": 0, "dialogue": []}
        game["seats"] = [{"seat": seat, "player": "policy", "outcome": won} for seat, won in seats]
        tally.add(game | {"facts": [("secret", "teapot")]})
    groups = {"seat": "alice", "secret": "teapot", "game": "duel"}
    of = {kind: [tally.cases[kind, value, False, 1, which] for which in range(3)] for kind, value in groups.items()}
    assert of["seat"] == pytest.approx([4, 2.0, 1.14]) and of["secret"] == of["game"] == pytest.approx([4, 1.2, 0.395])
    assert interval(*of["seat"]) == pytest.approx(mean_interval([0.2, 0.6, 0.7, 0.5]))
    assert interval(*of["secret"]) == pytest.approx(mean_interval([0.15, 0.35, 0.4, 0.3]))
