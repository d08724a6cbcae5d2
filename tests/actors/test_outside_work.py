"""What episodes wait for outside the engines: each piece of work comes back once, or is nobody's."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from concurrent.futures import Future

from actors.play.outside_work import OutsideWork
from envs import coroutines


def nothing(result) -> None:
    pass


def test_every_piece_of_work_comes_back_once_or_was_given_up():
    """Random orders of beginning, ending, failing and giving up, against a plain list."""
    for seed in range(200):
        draw, outside = random.Random(seed), OutsideWork(4)
        open_works: dict[int, Future] = {}
        expected, got, given_up = set(), [], set()
        for key in range(60):
            work = Future()
            outside.begin(key, work, nothing)
            open_works[key] = work
            while open_works and draw.random() < 0.6:
                chosen = draw.choice(list(open_works))
                work, what = open_works.pop(chosen), draw.random()
                if what < 0.3:
                    outside.give_up(chosen)
                    given_up.add(chosen)
                    if draw.random() < 0.5:
                        outside.give_up(chosen)  # twice changes nothing
                    continue
                work.set_running_or_notify_cancel()
                work.set_exception(ValueError()) if what < 0.5 else work.set_result(chosen)
                expected.add(chosen)
                if draw.random() < 0.2:
                    outside.give_up(chosen)  # done, and not yet taken
                    expected.discard(chosen)
                    given_up.add(chosen)
            if draw.random() < 0.3:
                batch = [done.key for done in outside.finished(0.0)]
                assert batch == sorted(batch)
                got += batch
        got += [done.key for done in outside.finished(0.0)]
        assert len(got) == len(set(got)) and set(got) == expected
        assert set(outside.waiting) == set(range(60)) - expected - given_up


def test_waiting_ends_with_the_first_result_and_without_any_work_at_once():
    outside = OutsideWork(4)
    started = time.monotonic()
    assert outside.finished(5.0) == [] and time.monotonic() - started < 1
    work = Future()
    outside.begin(1, work, nothing)
    threading.Timer(0.2, work.set_result, (7,)).start()
    ((key, done, _),) = outside.finished(30.0)
    assert key == 1 and done.result() == 7 and time.monotonic() - started < 10


def test_overdue_counts_from_the_beginning_of_each_work():
    outside = OutsideWork(4)
    outside.begin(1, Future(), nothing)
    time.sleep(0.1)
    outside.begin(2, Future(), nothing)
    assert outside.overdue(0.05) == [1] and outside.overdue(10.0) == []


def test_threads_that_hang_are_replaced_and_those_that_wait_still_get_their_turn():
    outside, release = OutsideWork(4), threading.Event()
    for key in range(6):  # four begin, two wait for a thread
        outside.begin(key, outside.in_thread(release.wait, 60.0), nothing)
    time.sleep(0.2)
    outside.give_up(5)  # was not begun: it is cancelled, and no thread hangs
    assert outside.hung == 0
    first = outside.threads
    outside.give_up(0)
    outside.give_up(1)
    assert outside.threads is not first and outside.hung == 0
    outside.begin(10, outside.in_thread(str, 10), nothing)
    ((key, work, _),) = outside.finished(10.0)
    assert (key, work.result()) == (10, "10"), "new threads work while the old ones hang"
    release.set()
    got, deadline = set(), time.monotonic() + 20
    while got != {2, 3, 4} and time.monotonic() < deadline:
        got |= {done.key for done in outside.finished(0.5)}
    assert got == {2, 3, 4}, "what the old ones had taken on comes back"
    outside.close()


def test_a_coroutine_that_is_given_up_ends_and_leaves_no_thread_behind():
    outside, ended = OutsideWork(4), threading.Event()

    async def for_ever():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    for key in range(10):
        outside.begin(key, coroutines.submit(for_ever()), nothing)
    time.sleep(0.1)
    for key in range(10):
        outside.give_up(key)
    assert ended.wait(10) and outside.hung == 0 and outside.finished(0.1) == []


def test_work_that_waits_for_a_thread_is_not_overdue():
    outside, release = OutsideWork(2), threading.Event()
    for key in range(4):
        outside.begin(key, outside.in_thread(release.wait, 60.0), nothing)
    time.sleep(0.3)
    assert outside.overdue(10.0) == []  # looks who has begun
    time.sleep(0.1)
    assert outside.overdue(0.05) == [0, 1]
    release.set()
    deadline = time.monotonic() + 20
    while outside.waiting and time.monotonic() < deadline:
        outside.finished(0.5)
    outside.close()


def test_a_thread_whose_work_was_given_up_hangs_until_that_ends():
    outside = OutsideWork(8)
    for key in range(6):
        release = threading.Event()
        outside.begin(key, outside.in_thread(release.wait, 60.0), nothing)
        time.sleep(0.05)
        outside.give_up(key, "game")
        assert outside.hung == 1 and outside.still_played(60.0) == {"game": 1} and not outside.still_played(0.0)
        release.set()
        deadline = time.monotonic() + 20
        while outside.hung and time.monotonic() < deadline:
            time.sleep(0.01)
        assert outside.hung == 0 and not outside.still_played(60.0)
    outside.close()
