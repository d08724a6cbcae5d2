"""The thread that keeps a run's games: who plays and learns hands them over and goes on.

    trained, held_out, unused --> those of the update that is being prepared
    end(update)               --> a queue --> the thread --> a part of the store, every two seconds at most
    settle                    <-- all that have ended are on the disk

The thread begins when an update has ended: then the run waits for games, and nobody waits for the thread.

A checkpoint is made after `settle`, and what is handed over after it goes into the part of a later update. So a run
that goes on from update N, and cuts the store back to N, has every game once that the ledger of that checkpoint has
consumed, whenever it was killed. Games of later updates, and of an evaluation that had not ended, are played again.

The queue is short: one who hands over waits while the thread is behind. What the thread cannot do is raised by the next
call, and stops the run.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster.episodes.columns import Kept, table_of
from cluster.episodes.evenly import evenly
from cluster.episodes.store import EpisodeStore
from cluster.errors import ParleyError, RunError
from envs.episode import Episode, Ticket
from reward_service.shaper import ShapedRewards

if TYPE_CHECKING:
    from actors.fleet.finished import Finished
    from cluster.recipe.config import RecordSettings

log = logging.getLogger("parley")
QUEUED = 64  # calls that the thread may be behind
WAIT_SECONDS = 600.0  # for the thread to catch up
APART_SECONDS = 2.0  # from one part to the next: each costs its own time, however small it is
Given = Callable[[], Iterable[Kept]]  # makes the games that were handed over, in the thread
Fetch = Callable[[Sequence["Finished"]], list[Episode | None]]  # None: it is gone
Seat = tuple[int, str]  # ticket number and seat
Work = Callable[[], None] | threading.Event  # something to do, or somebody to be told that all before it is done


class Recorder:
    """Use as a context manager; with `record.episodes: none` it keeps nothing and writes nothing."""

    def __init__(self, folder: Path, settings: RecordSettings, fetch: Fetch):
        self.folder, self.settings, self.fetch = folder, settings, fetch
        self.active = settings.episodes != "none"
        self.preparing: list[Given] = []  # for the update that is being prepared
        self.no_use = 0  # how many of its games were of no use and are kept
        self.next = 0  # that update
        self.on_kept: Callable[[Sequence[Kept]], None] | None = None  # called in the thread, with those of an update
        self.ended: list[Kept] = []  # games of updates that ended since the last part
        self.wrote = 0.0  # when that was
        self.seconds, self.written, self.figures = 0.0, 0, {}  # of the thread, since the start
        self.error: BaseException | None = None
        if self.active:
            self.store = EpisodeStore(folder, settings.most_gib * 2**30)
            self.work: queue.Queue[Work | None] = queue.Queue(QUEUED)
            self.thread = threading.Thread(target=self._run, name="recorder", daemon=True)
            self.thread.start()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception) -> None:
        try:
            self.close()
        except ParleyError:
            if kind is None:  # else what has stopped the run is the news; the log has both
                raise

    # What the run says

    def trained(
        self,
        results: Sequence[Finished],
        rewards: Sequence[ShapedRewards],
        credit: dict[Seat, np.ndarray],
    ) -> None:
        """The batch, in ticket order; `credit`: the advantages of each seat's trained tokens."""
        some = self._some(results)
        self._hand_over(lambda: self._batch(some, rewards, credit))

    def held_out(self, results: Sequence[Finished], episodes: Sequence[Episode]) -> None:
        """An evaluation that has ended."""
        pairs = self._some(list(zip(results, episodes, strict=True)))
        self._hand_over(lambda: [_kept(result, episode, held_out=True) for result, episode in pairs])

    def unused(self, result: Finished, held_out: bool) -> None:
        """A game that failed, or was not learned from: `result.reason` says why."""
        most = self.settings.episodes
        if self.active and (most == "all" or self.no_use < most):
            self.no_use += 1
            self._hand_over(lambda: [self._unused(result, held_out)])

    def end(self, update: int) -> None:
        """What was handed over since the last one belongs to this update."""
        given, self.preparing, self.no_use, self.next = self.preparing, [], 0, update + 1
        self._ask(lambda: self._end(update, given))

    def settle(self) -> None:
        """Returns when the games of all updates that have ended are on the disk."""
        done = threading.Event()
        self._ask(done)
        if self.active and not done.wait(WAIT_SECONDS):
            raise self._late()
        if self.active:
            self._check()

    def cut_back(self, update: int, evaluated: Collection[int] | None = None) -> None:
        """The run goes on from this update, also one that keeps no games any more. `evaluated` as in the store."""
        if not self.active and self.folder.is_dir():
            EpisodeStore(self.folder, math.inf).cut_back(update, evaluated)
        self.preparing, self.next = [], update + 1
        self._ask(lambda: self._go_back(update, evaluated))
        self.settle()

    def metrics(self) -> dict[str, float]:
        return self.figures

    def close(self) -> None:
        """Games of an update that did not end are kept until the run goes on, for they may tell why."""
        if not self.active:
            return
        given, self.active = self.preparing, False
        self._put(lambda: self._end(self.next, given))
        self._put(threading.Event())
        self._put(None)
        self.thread.join(WAIT_SECONDS)
        if self.thread.is_alive():
            raise self._late()
        self._check()

    def _hand_over(self, games: Given) -> None:
        if self.active:
            self._check()
            self.preparing.append(games)

    def _ask(self, work: Work) -> None:
        if self.active:
            self._check()
            self._put(work)

    def _put(self, work: Work | None) -> None:
        try:
            self.work.put(work, timeout=WAIT_SECONDS)
        except queue.Full:
            raise self._late() from None

    def _late(self) -> RunError:
        return RunError(
            f"the games could not be written to {self.store.folder} within {WAIT_SECONDS:.0f} s: is its disk too slow? "
            "record.episodes=none keeps none"
        )

    def _check(self) -> None:
        if isinstance(self.error, ParleyError):
            raise self.error
        if self.error is not None:
            raise RunError(f"the games cannot be kept: {type(self.error).__name__}: {self.error}") from self.error

    def _some(self, games: Sequence[Any]) -> Sequence[Any]:
        """So many of them as are to be kept, evenly over the order of their tickets."""
        if not isinstance(self.settings.episodes, int):
            return games
        return evenly(games, self.settings.episodes)

    # What the thread does

    def _run(self) -> None:
        while (work := self._next()) is not None:
            began = time.thread_time()
            try:
                if self.error is None:
                    self._do(work)
            except BaseException as error:
                log.exception("the games cannot be kept")
                self.error = error
            if isinstance(work, threading.Event):
                work.set()
            self.seconds += time.thread_time() - began
            self.figures = {
                "record/games": float(self.written),
                "record/mib": self.store.bytes / 2**20,
                "record/forgotten": float(self.store.forgotten),
                "record/seconds": self.seconds,
            }

    def _next(self) -> Work | None:
        try:
            return self.work.get(timeout=APART_SECONDS)
        except queue.Empty:
            return self._write

    def _do(self, work: Work) -> None:
        if isinstance(work, threading.Event):
            self._write()
        else:
            work()
        while self.work.empty() and self.store.merge():
            pass

    def _batch(
        self, results: Sequence[Finished], rewards: Sequence[ShapedRewards], credit: dict[Seat, np.ndarray]
    ) -> Iterator[Kept]:
        shaped = {(each.number, each.seat): each for each in rewards}
        for result, episode in zip(results, self.fetch(results), strict=True):
            if episode is None:
                raise RunError(f"episode {result.ticket.number} was learned from and is gone: it cannot be kept")
            of_seats = {"shaped": _of(result.ticket, shaped), "credit": _of(result.ticket, credit)}
            yield _kept(result, episode, **of_seats)

    def _unused(self, result: Finished, held_out: bool) -> Kept:
        (episode,) = [None] if result.ref is None else self.fetch([result])
        return _kept(result, episode, failure=result.reason, why=result.what or None, held_out=held_out)

    def _end(self, update: int, given: Sequence[Given]) -> None:
        games = list(chain.from_iterable(games() for games in given))
        for game in games:
            game.update = update
        self.ended += games
        if self.on_kept is not None:
            self.on_kept(games)
        if time.monotonic() - self.wrote >= APART_SECONDS:
            self._write()

    def _write(self) -> None:
        games, self.ended = self.ended, []
        if not games:
            return
        forgotten = self.store.forgotten
        self.store.write(games[0].update, games[-1].update, table_of(games))
        self.wrote = time.monotonic()
        self.written += len(games)
        if self.store.forgotten and not forgotten:
            log.warning("%s has reached record.most_gib: from now on its oldest games go", self.store.folder)

    def _go_back(self, update: int, evaluated: Collection[int] | None) -> None:
        self.store.cut_back(update, evaluated)
        self.ended = []


def _kept(result: Finished, episode: Episode | None, **known: Any) -> Kept:
    return Kept(
        result.ticket,
        0,
        episode,
        tokens=result.tokens,
        ended=result.ended,
        worker=result.worker,
        node=result.node,
        **known,
    )


def _of(ticket: Ticket, found: dict[Seat, Any]) -> dict[str, Any]:
    """By seat."""
    return {seat: found[ticket.number, seat] for seat, _ in ticket.players if (ticket.number, seat) in found}
