"""What waits for the annotator: nothing is lost, nothing is asked twice, nothing grows without bound."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_service.shapers.oni.queue import Queue

CAPTIONS = [(f"caption {number}",) for number in range(12)]
PAIRS = [("a", "b"), ("b", "a"), ("a", "c")]
ACTIONS = st.one_of(
    st.tuples(st.just("see"), st.sampled_from(CAPTIONS + PAIRS)),
    st.tuples(st.just("take"), st.integers(0, 5)),
    st.tuples(st.just("answer"), st.integers(0, 20)),
    st.tuples(st.just("fail"), st.integers(0, 20)),
    st.tuples(st.just("lost"), st.none()),
    st.tuples(st.just("tick"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)


def balances(queue: Queue) -> None:
    counts, places = queue.counts, (queue.queued, queue.pending, queue.resting)
    waiting = len(queue.pending) + len(queue.queued)
    assert counts["seen"] == counts["labelled"] + waiting + counts["dropped"] + counts["given_up"]
    assert sum(map(len, places)) == len({question for place in places for question in place}), "in one place at most"
    assert len(queue.queued) <= queue.backlog and len(queue.resting) <= counts["given_up"]
    assert all(failed < queue.attempts for failed in (*queue.queued.values(), *queue.pending.values()))


@settings(deadline=None)
@given(st.lists(ACTIONS, max_size=120), st.integers(1, 6), st.integers(1, 3), st.integers(1, 4))
def test_whatever_happens_every_question_is_accounted_for(actions, backlog, attempts, rest):
    queue, taken = Queue(backlog, attempts, rest), []
    for action, argument in actions:
        match action:
            case "see":
                queue.see(argument)
            case "take":
                asked = queue.take(argument)
                assert not set(asked) & set(taken), "it is asked already"
                taken += asked
            case "answer" | "fail" if taken:
                question = taken.pop(argument % len(taken))
                queue.answered(question) if action == "answer" else queue.failed(question, "ReadTimeout")
            case "lost":
                queue.lost()
                taken = []
            case "tick":
                queue.tick()
            case "restart":
                saved = json.loads(json.dumps(queue.state()))
                queue, taken = Queue(backlog, attempts, rest), []
                queue.restore(saved)
        balances(queue)
        assert set(taken) == set(queue.pending)
    calls = sum(queue.failures.values())
    assert queue.counts["given_up"] * attempts <= calls <= queue.counts["seen"] * attempts


def seen(queue: Queue, names: str) -> Queue:
    for name in names:
        queue.see((name,))
    return queue


def taken(queue: Queue, most: int = 100) -> str:
    return "".join(name for (name,) in queue.take(most))


def test_the_newest_is_asked_first_and_being_seen_again_makes_new():
    queue = seen(Queue(100, 3, 10), "abcde")
    assert taken(queue, 2) == "ed"
    seen(queue, "fa")
    assert taken(queue) == "afcb" and taken(queue) == ""


def test_what_is_pending_or_resting_is_not_queued_again():
    queue = seen(Queue(100, 1, 10), "ab")
    assert taken(queue, 1) == "b"
    seen(queue, "bbb")
    assert taken(queue) == "a" and queue.counts["seen"] == 2
    queue.failed(("b",), "HTTP_500")
    seen(queue, "b")
    assert taken(queue) == "", "it was given up and rests"


def test_a_backlog_that_is_full_drops_the_oldest_and_counts_them():
    queue = seen(Queue(3, 3, 10), "abcdefg")
    assert (queue.counts["seen"], queue.counts["dropped"]) == (7, 4)
    assert taken(queue) == "gfe"
    seen(queue, "a")
    assert taken(queue) == "a" and queue.counts["seen"] == 8, "dropped is forgotten, seen again is new"
    seen(queue, "xyz")
    for name in "gf":
        queue.failed((name,), "HTTP_500")
    assert taken(queue) == "zyx" and queue.counts["dropped"] == 6, "what failed is older than all that waits"


def test_a_failed_batch_goes_back_as_often_as_it_may_and_is_then_given_up():
    queue = seen(Queue(100, 2, 3), "abc")
    for name in taken(queue):
        queue.failed((name,), "ConnectError")
    seen(queue, "d")
    assert len(queue.queued) == 4 and taken(queue, 1) == "d", "what is new goes first"
    for name in taken(queue):
        queue.failed((name,), "ReadTimeout")
    assert queue.failures == {"ConnectError": 3, "ReadTimeout": 3} and queue.counts["given_up"] == 3
    for update in range(3):
        assert taken(seen(queue, "abc")) == "", update
        queue.tick()
    assert taken(seen(queue, "abc")) == "cba", "rested, they may be tried again"
    balances(queue)


def test_nobody_vanishes_with_an_annotator_that_does():
    queue = seen(Queue(100, 2, 3), "abc")
    taken(queue, 2)
    queue.lost()
    assert queue.failures == {"lost": 2} and not queue.pending and len(queue.queued) == 3
    queue.lost()
    assert queue.failures == {"lost": 2}


def test_an_answer_to_what_was_not_asked_is_an_error():
    queue = seen(Queue(100, 2, 3), "ab")
    taken(queue, 1)
    queue.answered(("b",))
    for wrong in ("a", "b"):
        with pytest.raises(KeyError):
            queue.answered((wrong,))


def test_what_is_pending_is_asked_first_after_a_restart():
    queue = seen(Queue(100, 2, 3), "abcde")
    assert taken(queue, 1) == "e" and taken(queue, 2) == "dc"
    queue.failed(("d",), "ReadTimeout")
    again = Queue(100, 2, 3)
    again.restore(json.loads(json.dumps(queue.state())))
    assert again.counts == queue.counts and again.failures == queue.failures
    assert taken(again) == "ecbad"
    balances(again)
