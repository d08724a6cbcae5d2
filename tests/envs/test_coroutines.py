"""Games of coroutines: the loop that runs them, and how everybody else plays them."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
import time
from inspect import iscoroutinefunction

import pytest

from envs import coroutines
from envs.coroutines import Blocking, blocked_seconds, finish, has_coroutines, submit
from envs.game import Game, Step
from envs.registry import make_game


class CountLate(Game):
    """Two seats say the numbers in turns; a right one pays a quarter. Every answer comes from somewhere else."""

    seats = ("odd", "even")
    horizon = 6

    def __init__(self, last: int = 4):
        self.last = last

    async def reset(self, seed):
        await asyncio.sleep(0.001)
        self.next = 1 + seed % 2

    def observe(self):
        return f"say {self.next}"

    def actions(self):
        return ("1", "2", "3", "4")

    async def step(self, utterance):
        await asyncio.sleep(0.001)
        if utterance == "break":
            raise ZeroDivisionError
        right = utterance == str(self.next)
        self.next += right
        return Step({self.seat: 0.25} if right else {}, executable=right, terminated=self.next > self.last)


class CountLouder(CountLate):
    async def step(self, utterance):
        return await super().step(utterance.strip("!"))


def test_the_defaults_of_the_base_class_hold_for_coroutines():
    game = make_game(f"{__name__}:CountLouder", {"last": 4})
    assert isinstance(game, Blocking) and has_coroutines(game.game) and iscoroutinefunction(game.game.step)
    assert game.name == "count_louder" and game.seats == ("odd", "even") and game.seat is None
    with pytest.raises(RuntimeError, match="the game is over"):
        game.step("1")
    game.reset(0)
    for number in range(1, 4):
        assert (game.seat, game.observe()) == ("odd" if number % 2 else "even", f"say {number}")
        assert not game.step(f"{number}!").terminated
    saved = json.loads(json.dumps(game.save()))
    assert saved == {"seed": 0, "said": ["1!", "2!", "3!"]}, "each turn is written once"
    other = make_game(f"{__name__}:CountLouder", {"last": 4})
    other.restore(saved)
    for each in (game, other):
        assert each.seat == "even" and each.step("4").terminated
        assert each.seat is None and each.outcome() == {"odd": 0.5, "even": 0.5}
    game.reset(0)
    steps = [game.step("x") for _ in range(6)]
    assert [step.truncated for step in steps] == [False] * 5 + [True]


def test_a_step_that_breaks_is_no_turn_and_its_words_are_those_of_practice():
    game = make_game(f"{__name__}:CountLate")
    game.reset(0)
    with pytest.raises(ZeroDivisionError):
        game.step("break")
    assert game.save()["said"] == [] and game.step("1").executable
    assert {"say 1", "say 2", "1", "4"} <= set(game.language())
    assert copy.copy(game).observe() == "say 2"
    with pytest.raises(AttributeError):
        game.no_such_thing  # noqa: B018


def test_a_plain_game_stays_as_it_is():
    assert not isinstance(make_game("twenty_questions"), Blocking)
    assert finish(3) == 3


def test_all_coroutines_of_a_process_share_one_thread_and_wait_at_once():
    async def where(n):
        await asyncio.sleep(0.2)
        return n, threading.get_ident()

    started = time.monotonic()
    found = [work.result(20) for work in [submit(where(n)) for n in range(3000)]]
    assert time.monotonic() - started < 0.2 * 3000 / 20, "they waited one after the other"
    assert [n for n, _ in found] == list(range(3000)) and len({thread for _, thread in found}) == 1
    assert threading.get_ident() not in {thread for _, thread in found}


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_coroutine_that_wants_to_end_the_process_ends_itself_only(error):
    async def leave():
        raise error(3)

    async def stay():
        await asyncio.sleep(0.05)
        return "here"

    staying = submit(stay())
    with pytest.raises(RuntimeError, match=f"{error.__name__} in a coroutine"):
        finish(leave())
    assert staying.result(10) == "here"


def test_waiting_has_an_end_and_cancels_what_it_waited_for():
    ended = threading.Event()

    async def for_ever():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError, match=r"step of game 'chess' did not end within 0 s"):
        finish(for_ever(), "step of game 'chess'", seconds=0.05)
    assert ended.wait(10)

    async def late():
        raise TimeoutError("the server's own")

    with pytest.raises(TimeoutError, match="the server's own"):
        finish(late())


def test_the_loop_does_not_wait_for_itself():
    async def one():
        return 1

    async def wrong():
        return finish(one(), "a step")

    with pytest.raises(RuntimeError, match="a step is waited for in the loop that has to run it"):
        finish(wrong())


def test_a_coroutine_that_computes_instead_of_waiting_is_noticed():
    async def compute():
        time.sleep(1.5)

    finish(asyncio.sleep(0))
    work = submit(compute())
    most, deadline = 0.0, time.monotonic() + 20
    while not work.done() and time.monotonic() < deadline:
        most = max(most, blocked_seconds())
        time.sleep(0.02)
    assert 0.5 < most < 5.0
    finish(asyncio.sleep(2 * coroutines.BEAT_SECONDS))
    assert blocked_seconds() < 0.5, "it goes on"
