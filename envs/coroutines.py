"""Games whose `reset` or `step` is a coroutine: thousands of them wait at once, and none of them needs a thread.

    class Served(Game):
        async def step(self, utterance):
            answer = await self.server.ask(utterance)
            ...

One event loop runs the coroutines of a process, in one thread, so what a game opened in one call (a session, a
connection) is there in the next one. A coroutine that computes instead of waiting keeps all others waiting.
Rollout workers play such games as they are; everybody else is given `Blocking`, whose calls return when their
coroutine is over.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from inspect import isawaitable, iscoroutinefunction
from typing import Any

CALL_SECONDS = 600.0  # longest that anybody who blocks waits for one coroutine
BEAT_SECONDS = 0.5


class _Loop:
    """An event loop in a thread, and the sign that it runs."""

    def __init__(self) -> None:
        self.process = os.getpid()  # threads are not there after a fork
        self.loop = asyncio.new_event_loop()
        self.beat = time.monotonic()
        self.thread = threading.Thread(target=self._run, name="coroutines", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self._tick()
        self.loop.run_forever()

    def _tick(self) -> None:
        self.beat = time.monotonic()
        self.loop.call_later(BEAT_SECONDS, self._tick)


_guard = threading.Lock()
_current: _Loop | None = None


def _running() -> _Loop:
    global _current
    with _guard:
        if _current is None or _current.process != os.getpid():
            _current = _Loop()
        return _current


def submit(coroutine: Coroutine[Any, Any, Any]) -> Future:
    """Begin it in the loop. To cancel the future cancels the coroutine."""
    return asyncio.run_coroutine_threadsafe(_harmless(coroutine), _running().loop)


async def _harmless(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:  # either would end the loop under all others
        raise RuntimeError(f"{type(error).__name__} in a coroutine") from error


def finish(found: Any, what: str = "a coroutine", seconds: float = CALL_SECONDS) -> Any:
    """What a call returned; if that is a coroutine, its result."""
    if not isawaitable(found):
        return found
    running = _running()
    if threading.current_thread() is running.thread:
        found.close()
        raise RuntimeError(f"{what} is waited for in the loop that has to run it: await it there")
    work = submit(found)
    try:
        return work.result(seconds)
    except TimeoutError:
        if work.done():  # the coroutine's own
            raise
        raise TimeoutError(f"{what} did not end within {seconds:.0f} s") from None
    finally:
        work.cancel()


def blocked_seconds() -> float:
    """For how long a coroutine has kept the loop from going on; 0 where none was ever begun."""
    if _current is None or _current.process != os.getpid():
        return 0.0
    return max(0.0, time.monotonic() - _current.beat - BEAT_SECONDS)


def has_coroutines(game: Any) -> bool:
    return any(iscoroutinefunction(getattr(game, name, None)) for name in ("reset", "step"))


class Blocking:
    """A game of coroutines, for those who play it call by call."""

    def __init__(self, game: Any):
        self.game = game

    def __getattr__(self, name: str) -> Any:
        if name == "game" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.game, name)

    def reset(self, seed: int) -> None:
        finish(self.game.reset(seed), f"reset of game {self.game.name!r}")

    def step(self, utterance: str) -> Any:
        return finish(self.game.step(utterance), f"step of game {self.game.name!r}")
