"""The benchmark of games that wait: its game, its simulation, its closed form."""

from __future__ import annotations

import pytest

from benchmarks import waiting
from benchmarks.waiting import simulate, slowest, steady
from benchmarks.waiting_game import CAP_SECONDS, TURNS, WaitingParrot, waits
from envs.coroutines import finish


def test_a_task_waits_the_same_each_time_and_never_too_long():
    assert waits(3) == waits(3) != waits(4) and len(waits(3)) == TURNS
    every = [each for seed in range(2000) for each in waits(seed)]
    assert max(every) <= CAP_SECONDS and sorted(every)[len(every) // 2] == pytest.approx(0.3, rel=0.05)


def test_the_game_is_parrot_but_for_its_waits(monkeypatch):
    monkeypatch.setattr("benchmarks.waiting_game.MEDIAN_SECONDS", 1e-4)
    game = WaitingParrot()
    game.reset(1)
    word = game.observe().split()[-1]
    assert finish(game.step(word)).rewards == {"parrot0": 1.0} and game.horizon == TURNS


@pytest.mark.parametrize("staleness", [0, 1, 2, 4, 8])
def test_where_batches_take_equally_long_the_simulation_is_the_closed_form(monkeypatch, staleness):
    monkeypatch.setattr(waiting, "slowest", lambda updates: [7.0] * updates)
    ends = simulate(staleness, 40, 0.1)
    assert steady(ends, staleness) == pytest.approx((7.0 + 0.1) / (staleness + 1))
    assert ends[1] == pytest.approx(7.1) and len(ends) == 41


def test_learning_that_takes_longer_than_the_waits_is_what_an_update_takes(monkeypatch):
    monkeypatch.setattr(waiting, "slowest", lambda updates: [7.0] * updates)
    assert steady(simulate(8, 40, 2.0), 8) == pytest.approx(2.0)


def test_batches_one_after_the_other_take_the_sum_of_their_slowest():
    assert simulate(0, 5, 0.0)[-1] == pytest.approx(sum(slowest(5)))
