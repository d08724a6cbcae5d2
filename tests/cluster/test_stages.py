"""The clock of the stages: no second is lost, and none is counted twice."""

from __future__ import annotations

import pytest

from cluster.record.stages import StageClock
from cluster.record.terminal import shares_of_time, where_tokens_went


class Hands:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def clock(hands) -> StageClock:
    return StageClock(hands)


def test_a_stage_within_another_takes_its_seconds_out_of_it(clock, hands):
    with clock.stage("learn"):
        hands.at += 4
        with clock.stage("sync"):
            hands.at += 2
        hands.at += 1
    assert clock.lap() == {"learn": 5, "sync": 2, "update": 7}


def test_a_stage_that_comes_again_is_added_up_and_one_within_itself_is_not_counted_twice(clock, hands):
    for _ in range(2):
        with clock.stage("sync"):
            hands.at += 1
            with clock.stage("sync"):
                hands.at += 1
    assert clock.lap() == {"sync": 4, "update": 4}


def test_seconds_outside_of_all_stages_are_of_the_update_alone(clock, hands):
    hands.at += 3
    with clock.stage("collect"):
        hands.at += 1
    assert clock.lap() == {"collect": 1, "update": 4}


def test_a_lap_within_a_stage_leaves_the_rest_of_it_to_the_next(clock, hands):
    with clock.stage("record"):
        hands.at += 1
        first = clock.lap()
        hands.at += 2
    with clock.stage("checkpoint"):
        hands.at += 3
    assert first == {"record": 1, "update": 1}
    assert clock.lap() == {"record": 2, "checkpoint": 3, "update": 5}
    assert clock.by_stage() == {"record": 3, "checkpoint": 3}


def test_a_stage_that_fails_is_over(clock, hands):
    with pytest.raises(ValueError), clock.stage("collect"):
        hands.at += 1
        raise ValueError
    hands.at += 1
    with clock.stage("learn"):
        hands.at += 1
    assert clock.lap() == {"collect": 1, "learn": 1, "update": 3}


def test_the_terminal_names_the_largest_first_and_leaves_out_what_is_next_to_nothing():
    seconds = {"collect": 2.5, "shape": 0.001, "learn": 7.5}
    assert shares_of_time(seconds) == "learn 75 %, collect 25 % of 10.0 s"
    assert shares_of_time({}) == "none"


def test_the_terminal_says_where_tokens_went():
    parts = {"sampled": 2000, "trained": 1500, "evaluated": 400, "waiting": 0, "playing": 0, "dropped": 100}
    found = {f"tokens/{name}": tokens for name, tokens in parts.items()}
    assert where_tokens_went(found) == "2,000 sampled: trained 75 %, evaluated 20 %, dropped 5 %"
    assert where_tokens_went(dict.fromkeys(found, 0)) == "none"
