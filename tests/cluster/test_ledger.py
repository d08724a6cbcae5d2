"""The ledger's equation, its staleness bound and its restart, on random histories."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.run.ledger import TRAINING_SEEDS, Ledger, training_seed

PLAYERS = (("guesser", "policy"),)


def new_ledger(batch=4, max_staleness=1, max_attempts=3, group=1) -> Ledger:
    bounds = {"batch": batch, "max_staleness": max_staleness, "max_attempts": max_attempts, "group": group}
    return Ledger("run", "game", PLAYERS, seed=5, **bounds)


@given(
    moves=st.lists(
        st.tuples(
            st.sampled_from(["finish", "fail", "late", "admit", "restart", "redraw", "lose"]), st.integers(0, 99)
        ),
        max_size=200,
    ),
    groups=st.integers(1, 5),
    group=st.integers(1, 4),
    max_staleness=st.integers(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_any_history_balances_and_uses_every_episode_once(moves, groups, group, max_staleness):
    batch = groups * group
    ledger = new_ledger(batch, max_staleness, group=group)
    trained, dropped, seeds, draws, given_back = [], set(), {}, {}, set()
    live = ledger.admit()
    finished_before = []
    for move, pick in moves:
        if move == "admit":
            live += ledger.admit()
        elif move == "restart":
            saved = json.loads(json.dumps(ledger.state()))
            ledger = new_ledger(batch, max_staleness, group=group)
            ledger.restore(saved)
            live = ledger.admit()
        elif move == "late" and finished_before:
            before = ledger.in_flight, ledger.counts.consumed
            ticket = finished_before[pick % len(finished_before)]
            if not ledger.is_live(ticket):
                ledger.finish(ticket, "again")
                assert (ledger.in_flight, ledger.counts.consumed) == before
        elif move == "lose" and ledger.waiting:
            ticket = ledger.waiting[sorted(ledger.waiting)[pick % len(ledger.waiting)]]
            ledger.lose(ticket, "episode_lost")
            if ticket.number in ledger.gone:
                dropped.add(ticket.number)
        elif move == "redraw":
            open_groups = {number // group for number in (*ledger.waiting, *ledger.gone)}
            whole = sorted(each for each in open_groups if ledger.results_of(each) is not None)
            if whole:
                task = whole[pick % len(whole)]
                given_back |= {ticket.identity for ticket in ledger.results_of(task)}
                ledger.draw_again(task)
                draws[task] = draws.get(task, 0) + 1
                dropped -= set(range(task * group, (task + 1) * group))
        elif live and move in ("finish", "fail"):
            ticket = live.pop(pick % len(live))
            seeds[ticket.number] = ticket.seed, draws.get(ticket.number // group, 0)
            if move == "finish":
                ledger.finish(ticket, ticket)
                finished_before.append(ticket)
            else:
                ledger.fail(ticket, "worker_died")
                if ticket.number in ledger.gone:
                    dropped.add(ticket.number)
        while not ledger.missing():
            # Everything in this batch was issued when at most max_staleness batches were unconsumed before it.
            assert ledger.next_number <= (ledger.next_batch + max_staleness + 1) * batch
            results = ledger.next_results()
            assert not given_back & {ticket.identity for ticket in results}, "a game was trained on and given back"
            results = [ticket.number for ticket in results]
            tasks = {number // group for number in results}
            mates = {number for task in tasks for number in range(task * group, (task + 1) * group)}
            assert mates <= {*results, *dropped}, "a group was taken apart"
            trained += results
            ledger.consume()
        ledger.check()
    assert len(trained) == len(set(trained)), "an episode was trained on twice"
    complete = set(range(ledger.next_batch * batch))
    assert set(trained) | dropped >= complete, "an episode of a consumed batch was lost"
    assert ledger.counts.consumed == len(trained)
    for number, (seed, draw) in seeds.items():
        assert seed == training_seed(5, number // group, draw), "a group's games are one game, restarted or not"


def test_admission_is_bounded_by_staleness():
    for staleness in range(4):
        ledger = new_ledger(batch=4, max_staleness=staleness)
        assert [t.number for t in ledger.admit()] == list(range(4 * (staleness + 1)))
        assert ledger.admit() == []


def test_the_gate_closes_at_the_end_of_the_run():
    ledger = new_ledger(batch=4, max_staleness=3)
    assert len(ledger.admit(until_batch=2)) == 8


def test_a_failed_ticket_keeps_its_seed_and_is_dropped_after_its_last_attempt():
    ledger = new_ledger(batch=1, max_staleness=0, max_attempts=2)
    (first,) = ledger.admit()
    ledger.fail(first, "timeout")
    (second,) = ledger.admit()
    assert (second.number, second.seed, second.attempt) == (first.number, first.seed, 1)
    ledger.finish(first, "too late")
    assert ledger.counts.late == 1 and ledger.missing() == [0]
    ledger.fail(second, "timeout")
    assert ledger.counts.dropped == {"timeout": 1} and ledger.missing() == [] and ledger.next_results() == []
    ledger.check()


def test_a_batch_cannot_be_taken_before_it_is_whole():
    ledger = new_ledger()
    ledger.admit()
    with pytest.raises(RuntimeError, match="misses 4"):
        ledger.next_results()


def test_an_unbalanced_ledger_is_an_error():
    ledger = new_ledger()
    ledger.admit()
    ledger.counts.issued += 1
    with pytest.raises(RuntimeError, match="does not balance"):
        ledger.check()


def test_training_seeds_stay_below_the_held_out_ones():
    seeds = [training_seed(run, n) for run in range(3) for n in range(2000)]
    assert max(seeds) < TRAINING_SEEDS and len(set(seeds)) > 5900


def test_a_group_that_is_drawn_again_is_another_task_with_all_its_attempts():
    ledger = new_ledger(batch=4, group=2, max_attempts=2)
    first = ledger.admit()
    assert ledger.results_of(0) is None
    ledger.finish(first[0], "alike")
    for _ in range(2):
        ledger.fail(ledger.playing[1], "timeout")
        first += ledger.admit()
    assert ledger.gone == {1: "timeout"} and ledger.results_of(0) == ["alike"]
    ledger.draw_again(0)
    ledger.check()
    assert ledger.missing() == [0, 1, 2, 3] and ledger.counts.redrawn == 1 and ledger.counts.dropped == {"timeout": 1}
    ledger.finish(first[0], "late")
    assert ledger.counts.late == 1
    again = ledger.admit()
    assert [(ticket.number, ticket.seed) for ticket in again] == [(n, training_seed(5, 0, 1)) for n in (0, 1)]
    assert training_seed(5, 0, 1) not in {training_seed(5, 0), training_seed(5, 1), training_seed(5, 0, 2)}
    assert not {ticket.identity for ticket in again} & {ticket.identity for ticket in first}
    ledger.fail(again[0], "timeout")
    assert ledger.admit()[0].number == 0, "each draw has its own attempts"
    with pytest.raises(RuntimeError, match="group 0 still misses games"):
        ledger.draw_again(0)
    saved = json.loads(json.dumps(ledger.state()))
    resumed = new_ledger(batch=4, group=2, max_attempts=2)
    resumed.restore(saved)
    assert {ticket.seed for ticket in resumed.admit() if ticket.number < 2} == {training_seed(5, 0, 1)}
    resumed.check()


def test_a_batch_is_whole_groups():
    tickets = new_ledger(batch=6, max_staleness=1, group=3).admit()
    assert [ticket.number for ticket in tickets] == list(range(12))
    tasks = [{ticket.seed for ticket in tickets[start : start + 3]} for start in range(0, 12, 3)]
    assert [len(task) for task in tasks] == [1, 1, 1, 1] and len(set.union(*tasks)) == 4
    assert [ticket.seed for ticket in new_ledger(batch=4, max_staleness=0).admit()] == [s for t in tasks for s in t]
    with pytest.raises(ValueError, match="a batch of 6 episodes is not made of whole groups of 4"):
        new_ledger(batch=6, group=4)


def test_a_group_whose_members_are_dropped_holds_nobody_up():
    ledger = new_ledger(batch=4, max_staleness=0, max_attempts=1, group=2)
    tickets = ledger.admit()
    ledger.fail(tickets[0], "timeout")
    for ticket in tickets[1:]:
        ledger.finish(ticket, ticket.number)
    assert ledger.missing() == [] and ledger.next_results() == [1, 2, 3]
    ledger.consume()
    ledger.check()
    assert [ticket.number for ticket in ledger.admit()] == [4, 5, 6, 7]
