"""Signs of life of Ray itself. Where Ray's GCS is frozen, a call that reaches it waits for ever, in the driver too.

    a thread --alive?--> GCS     answers: the node of this process is there, or is given up
                                 silent for too long, or the node is given up: the process ends, with one line

What Ray does itself where its GCS or raylet is *gone* (it ends its driver) is done here where they are frozen. Nothing
could be unwound: closing an actor or a place asks the GCS. Of a Ray that was started here it is known at once that a
process of it has ended, as where a signal goes to all that the command started (`timeout`, systemd); the others are
ended first.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cluster.run.last_word import LastWord

log = logging.getLogger("parley")
ASK_SECONDS = 5.0  # from one answer to the next question
ANSWER_SECONDS = 5.0  # for an answer
CLOSE_SECONDS = 60.0
SILENCE_SECONDS = 60.0  # as long as Ray waits for a GCS that is gone, unless it is told to wait longer by
NEEDED = ("gcs_server", "raylet")
RAYS_PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"


class Patience:
    """When to give up: after questions without an answer for so many seconds on end. Of the time between two questions
    no more counts than they are apart: a machine that slept is not a Ray that is silent."""

    def __init__(self, seconds: float, now: float):
        self.seconds, self.looked, self.silent = seconds, now, 0.0

    def heard(self, now: float) -> None:
        self.looked, self.silent = now, 0.0

    def missed(self, now: float) -> bool:
        """Another question was not answered; whether that was one too many."""
        self.silent += min(now - self.looked, ASK_SECONDS + ANSWER_SECONDS)
        self.looked = now
        return self.silent >= self.seconds


def watch(
    alive: Callable[[], bool],
    patience: Patience,
    over: threading.Event,
    clock: Callable[[], float] = time.monotonic,
    ended: Callable[[], str | None] = lambda: None,
) -> str | None:
    """Ask until it is `over`; why Ray is given up. `alive`: whether this node is there; raises TimeoutError where
    nobody answers. `ended`: a process without which there is no Ray."""
    while not over.wait(ASK_SECONDS):
        if gone := ended():
            return f"Ray's {gone} has ended"
        try:
            here = alive()
        except TimeoutError:
            if patience.missed(clock()):
                return f"Ray's GCS has given no sign of life for {patience.silent:.0f} s"
            continue
        if not here:
            return "Ray has given up this node: its raylet has given no sign of life"
        patience.heard(clock())
    return None


@contextmanager
def ray_watch(word: LastWord, started_here: bool) -> Iterator[None]:
    """While a run is connected to Ray."""
    over = threading.Event()
    longest = max(SILENCE_SECONDS, float(os.environ.get(RAYS_PATIENCE) or 0.0))

    def work() -> None:
        ended = _ended if started_here else lambda: None
        if why := watch(_alive, Patience(longest, time.monotonic()), over, ended=ended):
            _end(word, why, started_here)

    thread = threading.Thread(target=work, name="ray watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(ASK_SECONDS + 2 * ANSWER_SECONDS)


@contextmanager
def disconnecting(word: LastWord) -> Iterator[None]:
    """While a Ray that was started here is shut down, which asks its GCS too."""
    seconds = ASK_SECONDS if _ended() else CLOSE_SECONDS
    late = threading.Timer(seconds, _end, (word, f"Ray did not close within {seconds:.0f} s", True))
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()


def _end(word: LastWord, why: str, started_here: bool) -> None:
    log.error(why)
    word.end(why, then_kill=_rays_processes() if started_here else [])


def _rays_processes() -> list[int]:
    """That this process has started; the actors end with their raylet."""
    import ray

    node = ray._private.worker._global_node
    return [each.process.pid for kind in node.all_processes.values() for each in kind] if node is not None else []


def _ended() -> str | None:
    """Which of those has."""
    import ray

    node = ray._private.worker._global_node
    every = node.all_processes.items() if node is not None else ()
    return next(
        (kind for kind, made in every for each in made if kind in NEEDED and each.process.poll() is not None), None
    )


def _alive() -> bool:
    import ray
    from ray.exceptions import RpcError

    worker = ray._private.worker.global_worker
    try:
        return all(worker.gcs_client.check_alive([worker.current_node_id], timeout=ANSWER_SECONDS))
    except RpcError as error:
        raise TimeoutError(str(error)) from error
