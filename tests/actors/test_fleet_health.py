"""Which workers are given work: the state machine, and the handing out of tickets, without Ray."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ray.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    ObjectFetchTimedOutError,
    ObjectLostError,
    OutOfMemoryError,
)

from actors.fleet.fleet import LISTEN_SECONDS, Fleet
from actors.fleet.health import UP, FleetExhausted, FleetHealth, State
from actors.settings import RolloutSettings
from actors.worker_parts import WorkerSpec
from envs.episode import Ticket


def health(workers: int = 2, restarts: int = 2) -> FleetHealth:
    return FleetHealth(workers, start_seconds=100, silence_seconds=10, max_restarts=restarts, now=0.0)


def test_a_worker_must_join_before_it_is_live():
    fleet = health()
    with pytest.raises(ValueError, match="rollout worker 0 is starting, not joining"):
        fleet.joined(0)
    fleet.ready(0)
    assert fleet.in_state(State.JOINING) == [0] and fleet.in_state(State.LIVE) == []
    fleet.joined(0)
    assert fleet.in_state(State.LIVE) == [0] and fleet.in_state(State.STARTING) == [1]
    with pytest.raises(ValueError, match="is live, not starting"):
        fleet.ready(0)


def test_a_replacement_that_was_put_off_has_its_whole_time_to_start():
    fleet = health()
    fleet.ready(1)
    fleet.lost(0, "worker_died", now=50.0)
    fleet.put_off(0, now=400.0)
    assert fleet.overdue(499.0) == [] and fleet.overdue(501.0) == [(0, "worker_start_timeout")]


def test_silence_counts_from_the_question_not_from_the_last_answer():
    fleet = health()
    for index in range(2):
        fleet.ready(index)
        fleet.joined(index)
    assert fleet.overdue(now=1e6) == []  # nobody was asked
    fleet.asked(0, now=1e6)
    fleet.asked(0, now=1e6 + 9)  # asking again does not buy time
    assert fleet.overdue(now=1e6 + 10) == [] and fleet.overdue(now=1e6 + 10.1) == [(0, "worker_silent")]
    fleet.answered(0)
    assert fleet.overdue(now=1e6 + 50) == []


def test_the_lost_are_replaced_while_restarts_last():
    fleet = health()
    assert fleet.overdue(now=101) == [(0, "worker_start_timeout"), (1, "worker_start_timeout")]
    assert fleet.lost(0, "worker_start_timeout", now=101) == 1
    assert fleet.overdue(now=150) == [(1, "worker_start_timeout")]
    fleet.ready(0)
    fleet.joined(0)
    fleet.asked(0, now=150)
    assert fleet.lost(0, "worker_died", now=160) == 2 and fleet.in_state(State.STARTING) == [0, 1]
    assert fleet.overdue(now=190) == [(1, "worker_start_timeout")]  # the old question is forgotten
    assert fleet.restarts == 2


def test_one_that_is_lost_too_often_rests_and_the_run_ends_when_all_do():
    fleet = health()
    for index in range(2):
        fleet.ready(index)
    assert [fleet.lost(0, "worker_died", now=10.0 * n) for n in range(3)] == [1, 2, None]
    assert fleet.in_state(State.RESTING) == [0] and fleet.in_state(State.JOINING) == [1]
    assert fleet.overdue(now=1e5) == [] and fleet.due(now=3599.0) == [], "nobody waits for one that rests"
    with pytest.raises(ValueError, match="is resting, not starting"):
        fleet.ready(0)
    assert fleet.due(now=3601.0) == [(0, 3)] and fleet.due(now=3601.0) == []
    assert fleet.in_state(State.STARTING) == [0] and fleet.restarts == 3
    assert fleet.lost(0, "worker_died", now=3602.0) is None, "the two of before are still within the hour"
    assert [fleet.lost(1, "worker_died", now=3700.0) for _ in range(2)] == [1, 2]
    with pytest.raises(
        FleetExhausted, match=r"every rollout worker that .*max_worker_restarts=2 .*\(1\) of: of no use"
    ):
        fleet.lost(1, "of no use", now=3701.0)


def test_a_long_run_may_lose_any_number_of_workers_at_a_bearable_rate():
    fleet, now = health(workers=1, restarts=2), 0.0
    for n in range(500):
        now += 1900.0
        fleet.ready(0)
        assert fleet.lost(0, "worker_died", now) == n + 1


def all_live(workers: int = 2, **options) -> FleetHealth:
    fleet = health(workers, **options)
    for index in range(workers):
        fleet.ready(index)
        fleet.joined(index)
    return fleet


def test_one_that_is_late_is_suspect_until_it_answers_or_is_lost():
    fleet = all_live()
    fleet.asked(0, now=0.0)
    assert fleet.suspect(2.5) == [] and fleet.suspect(2.6) == [0] and fleet.suspect(2.7) == []
    assert fleet.in_state(State.SUSPECT) == [0] and fleet.in_state(State.LIVE) == [1]
    fleet.answered(0)
    assert fleet.in_state(State.LIVE) == [0, 1] and fleet.suspect(1e6) == []
    fleet.asked(0, now=10.0)
    assert fleet.suspect(13.0) == [0] and fleet.overdue(20.0) == [] and fleet.overdue(20.1) == [(0, "worker_silent")]
    assert fleet.lost(0, "worker_silent", now=20.1) == 1 and fleet.in_state(State.STARTING) == [0]


def test_an_answer_for_an_engine_that_has_not_gone_on_leaves_its_worker_suspect():
    fleet = all_live()
    fleet.answered(0, silent_seconds=2.6)
    assert fleet.in_state(State.SUSPECT) == [0]
    fleet.answered(0, silent_seconds=2.4)
    assert fleet.in_state(State.LIVE) == [0, 1]


def test_one_that_has_not_joined_is_never_suspect():
    fleet = health()
    fleet.ready(0)
    fleet.asked(0, now=0.0)
    assert fleet.suspect(9.0) == []
    fleet.answered(0, silent_seconds=9.0)
    assert fleet.in_state(State.JOINING) == [0], "it would play without the current weights"


def test_one_without_a_place_is_waited_for_without_end():
    fleet = FleetHealth(1, start_seconds=100, silence_seconds=10, max_restarts=0, now=0.0, pending=1)
    fleet.ready(0)
    assert fleet.in_state(State.PENDING) == [1] and fleet.overdue(1e9) == [] and fleet.due(1e9) == []
    assert fleet.placed(1, now=500.0) == 0, "the first that is started there"
    assert fleet.overdue(600.0) == [] and fleet.overdue(600.1) == [(1, "worker_start_timeout")]
    with pytest.raises(ValueError, match="is starting, not pending"):
        fleet.placed(1, now=501.0)


def test_nodes_that_go_are_not_held_against_their_workers():
    fleet = all_live(restarts=2)
    for times in range(1, 9):
        fleet.left(0, now=10.0 * times)
        assert fleet.in_state(State.PENDING) == [0] and fleet.placed(0, now=10.0 * times + 1) == times
    assert (fleet.restarts, fleet.left_count, fleet.gone) == (0, 8, 8)


def test_a_loss_just_before_its_node_is_known_to_be_gone_is_forgiven_and_an_older_one_counts():
    fleet = all_live(restarts=1)
    assert fleet.lost(0, "worker_died", now=0.0) == 1
    fleet.left(0, now=120.0)
    fleet.placed(0, now=130.0)
    assert fleet.lost(0, "worker_died", now=140.0) == 3, "the first was forgiven"
    fleet.left(0, now=260.1)
    fleet.placed(0, now=270.0)
    assert fleet.lost(0, "worker_died", now=280.0) is None, "the second was not"


def test_when_all_that_are_placed_rest_nobody_is_left_to_play():
    fleet = FleetHealth(1, start_seconds=100, silence_seconds=10, max_restarts=0, now=0.0, pending=3)
    with pytest.raises(FleetExhausted):
        fleet.lost(0, "worker_died", now=1.0)


def test_one_whose_node_is_to_go_ends_what_it_plays():
    fleet = all_live(4)
    fleet.asked(1, now=0.0)
    fleet.suspect(3.0)
    assert [fleet.told_to_leave(index, until) for index, until in enumerate((50.0, None, 50.0))] == [True] * 3
    assert fleet.in_state(State.LEAVING) == [0, 1, 2] and fleet.in_state(*UP) == [0, 1, 2, 3]
    assert not fleet.told_to_leave(0, 60.0), "it was told before; its node lasts longer now"
    fleet.answered(0)
    assert fleet.suspect(99.0) == [] and fleet.in_state(State.LIVE) == [3], "there is no way back"
    assert fleet.leaving(40.0, works=lambda index: True) == []
    assert fleet.leaving(40.0, works=lambda index: index == 1) == [0, 2], "they have nothing left to end"
    fleet.asked(2, now=40.0)
    fleet.answered(2)
    assert fleet.leaving(44.0, works=lambda index: True) == [], "what it said may be old by now"
    fleet.asked(2, now=40.1)
    assert fleet.leaving(44.0, works=lambda index: True) == []
    fleet.answered(2)
    assert fleet.leaving(44.0, works=lambda index: True) == [2], "it has said how its episodes stand"
    assert fleet.leaving(55.1, works=lambda index: True) == [0, 2], "it goes in less than five seconds"
    assert fleet.leaving(1e9, works=lambda index: True) == [0, 2], "nobody knows when the node of 1 goes"
    assert fleet.overdue(10.1) == [(1, "worker_silent")], "what does not answer is not waited for"


def test_one_that_does_not_play_yet_has_nothing_to_end():
    fleet = health()
    fleet.ready(1)
    assert not fleet.told_to_leave(0, None) and not fleet.told_to_leave(1, None)
    assert fleet.in_state(State.STARTING) == [0] and fleet.in_state(State.JOINING) == [1]


class Handle:
    """A worker that only remembers which tickets it was given."""

    def __init__(self):
        self.play, self.played = self, []

    def remote(self, tickets: list[Ticket], *_) -> None:
        self.played += [ticket.number for ticket in tickets]


def fleet_of(health: FleetHealth) -> Fleet:
    settings = RolloutSettings(workers=len(health.members), episodes_in_flight=100)
    fleet = Fleet(settings, WorkerSpec("run", "", {}, settings))
    fleet.processes.health, fleet.processes.handles = health, [Handle() for _ in health.members]
    return fleet


def some(numbers: range) -> list[Ticket]:
    return [Ticket("run", "parrot", number, number, ()) for number in numbers]


def test_a_suspect_gets_no_new_tickets_and_others_get_the_waiting_ones():
    fleet = fleet_of(all_live(3))
    fleet.assign(some(range(6)))
    assert [handle.played for handle in fleet.handles] == [[0, 3], [1, 4], [2, 5]]
    fleet.health.asked(1, now=0.0)
    fleet.health.suspect(3.0)
    fleet.assign(some(range(6, 10)))
    assert [handle.played for handle in fleet.handles] == [[0, 3, 6, 8], [1, 4], [2, 5, 7, 9]]
    assert [len(held) for held in fleet.with_worker] == [4, 2, 4] and fleet.handles[1] in fleet.workers()
    for index in (0, 2):
        fleet.health.asked(index, now=0.0)
    fleet.health.suspect(3.0)
    fleet.assign(some(range(10, 12)))
    assert len(fleet.waiting) == 2, "all are suspect"
    fleet.health.answered(1)
    fleet._hand_out()
    assert fleet.handles[1].played == [1, 4, 10, 11]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ActorDiedError(), "worker_died"),
        (OutOfMemoryError("killed by the memory monitor"), "worker_died"),
        (GetTimeoutError("late"), "worker_silent"),
        (ObjectLostError("00" * 28, b"", ""), "worker_silent"),
        (ObjectFetchTimedOutError("00" * 28, b"", ""), "worker_silent"),
    ],
)
def test_an_answer_that_does_not_arrive_loses_its_worker_and_ends_nothing_else(error, reason, monkeypatch):
    fleet, lost = fleet_of(all_live(2)), []
    monkeypatch.setattr(fleet.processes, "lose", lambda index, reason, cause="": lost.append((index, reason)))

    def hear(*_):
        raise error

    fleet._guarded(1, hear, None)
    assert lost == [(1, reason)]


def test_answers_are_those_of_the_workers_that_are_up(monkeypatch):
    health = all_live(3)
    health.lost(0, "worker_died", now=1.0)
    fleet = fleet_of(health)
    for number, handle in enumerate(fleet.handles):
        handle.receipt = SimpleNamespace(remote=lambda number=number: f"receipt {number}")
    waits = []
    monkeypatch.setattr("actors.fleet.fleet.ray.get", lambda call, timeout: call)
    monkeypatch.setattr(
        "actors.fleet.fleet.ray.wait", lambda calls, timeout, fetch_local: waits.append(timeout) or (calls, [])
    )
    assert fleet.receipts() == {1: "receipt 1", 2: "receipt 2"} and len(waits) == 2
    assert fleet._everyone("receipt", timeout=0.0) == {1: "receipt 1", 2: "receipt 2"}, "ready, though its turn is late"


def test_whoever_waits_for_an_engine_to_start_waits_though_games_have_come_back(monkeypatch):
    fleet, waited = fleet_of(all_live(1)), []
    fleet.returned = [object()]
    fleet.processes.starting = {0: "ready"}
    monkeypatch.setattr(fleet, "_listen", lambda timeout: waited.append(timeout) or fleet.processes.starting.clear())
    monkeypatch.setattr(fleet.processes, "look_after", lambda works: None)
    with fleet.no_starts():
        pass
    fleet._look(1.5)
    assert waited == [LISTEN_SECONDS, 0.0], "nobody waits for what has come back already"


def test_an_engine_that_fails_to_start_is_waited_for_once(monkeypatch):
    """Its next start comes when engines may start again; else learners would wait for it for ever."""
    fleet, started = fleet_of(all_live(2)), []
    fleet.processes.starting = {0: "ready"}

    def fails(timeout):
        fleet.processes.starting.clear()
        fleet.processes._start(0, 1)

    monkeypatch.setattr(fleet, "_listen", fails)
    monkeypatch.setattr(fleet.processes, "look_after", lambda works: None)
    monkeypatch.setattr(fleet.processes, "_start_now", lambda index, incarnation: started.append((index, incarnation)))
    monkeypatch.setattr(fleet.health, "put_off", lambda index, now: None)
    with fleet.no_starts():
        assert started == [] and not fleet.processes.starting
    assert started == [(0, 1)]
