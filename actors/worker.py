"""A rollout worker: an engine, the episodes it plays, and the calls it answers.

    RPC threads --commands--> engine thread (owns the engine and the Play)
    RPC threads <--results---

One thread steps the engine and nobody else touches it. Every call posts a command to it and waits for the answer
under a time limit; commands run between two steps. While paused, asleep, or within a weight update, no step is taken
and nothing is lost. A sleep ends with the next weight update: it wakes the weights first and the cache last.

If the engine thread dies, every call from then on raises what killed it.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from actors.engines.contract import Engine, EngineProcessLost
from actors.play.live import Failure, Returned
from actors.play.play import Play
from actors.play.snapshots import Snapshot
from actors.transport.receipt import Receipt
from actors.worker_parts import WorkerSpec, import_engine, make_cast, make_engine
from envs.coroutines import blocked_seconds
from envs.episode import Episode, Ticket
from envs.game import Game
from envs.memory import Spare
from envs.registry import make_game

log = logging.getLogger("parley.worker")
COMMAND_SECONDS = 600.0  # longest wait of a call for the engine thread
REST_SECONDS = 0.1  # how long the engine thread sleeps at a time when there is nothing to do


@dataclass(frozen=True, slots=True)
class Summary:
    """An episode in numbers, for metrics that need not fetch it."""

    outcome: float  # mean over the policy's seats
    fared: tuple[tuple[float, float], ...]  # outcome and sum of rewards of each of them
    turns: int
    tokens: int  # sampled by the policy
    oldest_version: int  # of the weights that made its tokens
    newest_version: int
    seconds: float
    cut_off: bool  # by the horizon or the context; it did not end


class Result(NamedTuple):
    """What became of a ticket: `reason` says why there is no episode."""

    ticket: Ticket
    reason: str | None
    summary: Summary | None
    tokens: int  # sampled for it by the policy
    wasted: int  # tokens of a snapshot that it could not go on from
    what: str = ""  # as in Failure


@dataclass(frozen=True, slots=True)
class Report:
    """Opens each answer of `finished`: what follows it, for how long the engine thread or the coroutines of
    games have not gone on, how many tokens of the policy were sampled so far, and how other episodes stand."""

    results: list[Result]
    silent_seconds: float
    sampled: int
    snapshots: list[Snapshot] = field(default_factory=list)


class WorkerFailed(RuntimeError):
    """The engine thread of a worker died; the message says of what."""


class WorkerLost(WorkerFailed):
    """Because something was ended from outside. Another try may work."""


def summarise(episode: Episode) -> Summary:
    versions = [turn.tokens.versions for turn in episode.turns if turn.tokens is not None]
    made = np.concatenate(versions) if versions else np.zeros(0, np.int32)
    policy = episode.policy_seats()
    return Summary(
        outcome=float(np.mean([episode.outcome[seat] for seat in policy or episode.outcome])),
        fared=tuple((episode.outcome[seat], sum(t.reward for t in episode.turns_of(seat))) for seat in policy),
        turns=len(episode.turns),
        tokens=len(made),
        oldest_version=int(made.min()) if len(made) else -1,
        newest_version=int(made.max()) if len(made) else -1,
        seconds=episode.seconds,
        cut_off=not episode.terminated,
    )


def told(returned: Returned) -> Result:
    ticket, result, wasted = returned
    if isinstance(result, Failure):
        return Result(ticket, result.reason, None, result.tokens, wasted, result.what)
    summary = summarise(result)
    return Result(ticket, None, summary, summary.tokens, wasted)


class RolloutWorker:
    def __init__(self, spec: WorkerSpec, index: int):
        self.spec, self.index = spec, index
        self.commands: queue.Queue[tuple[Callable[[], Any], Future | None]] = queue.Queue()
        self.lock = threading.Lock()  # guards `failure` against the posting of commands
        self.news = threading.Condition()  # guards `results` and `snapshots`
        self.results: list[Returned] = []
        self.snapshots: dict[Ticket, Snapshot] = {}  # of episodes that are played
        self.failure: WorkerFailed | None = None
        self.closing = False
        self.paused = False
        self.asleep = False
        self.beat = time.monotonic()
        self.busy_seconds = 0.0
        self.spare = Spare()
        self.wanted, self.up = threading.Event(), threading.Event()  # the engine
        self.engine: Engine | None = None
        self.play_state: Play | None = None
        self.thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self.thread.start()

    def __repr__(self) -> str:
        return f"rollout worker {self.index}"

    def _run(self) -> None:
        try:
            import_engine(self.spec)
            self.wanted.wait()
            self.engine = make_engine(self.spec, self.index)
            cast = make_cast(self.spec, self.engine)
            self.play_state = Play(cast, self.spec.rollout, self._new_game)
            self.beat = time.monotonic()  # before: or it would seem to have been silent since its process began
            self.up.set()
            while not self.closing:
                self._tick()
            self.play_state.close()
            for policy in cast.policies.values():
                policy.engine.close()
            for endpoint in cast.endpoints.values():
                endpoint.close()
            self._stop(WorkerFailed(f"rollout worker {self.index} is closed"))
        except BaseException as error:
            log.exception("the engine thread of rollout worker %d died", self.index)
            failed = WorkerLost if isinstance(error, EngineProcessLost) else WorkerFailed
            self._stop(failed(f"rollout worker {self.index}: {type(error).__name__}: {error}"))

    def _new_game(self, name: str) -> Game:
        game = self.spec.games[name]
        return make_game(game.name, game.options, blocking=False)

    def _tick(self) -> None:
        rests = self._resting()
        self._obey(REST_SECONDS if rests else 0.0)
        if rests or self._resting():
            self.play_state.rested(time.monotonic() - self.beat)
        if not (self._resting() or self.closing):
            started = time.monotonic()
            finished = self.play_state.step()
            self.busy_seconds += time.monotonic() - started
            self._tell(finished, self.play_state.new_snapshots())
        self.beat = time.monotonic()
        self.spare.look(self.beat)

    def _tell(self, finished: list[Returned], snapshots: dict[Ticket, Snapshot]) -> None:
        if not finished and not snapshots:
            return
        with self.news:
            self.snapshots |= snapshots
            for returned in finished:
                self.snapshots.pop(returned.ticket, None)
            self.results += finished
            if finished:
                self.news.notify_all()

    def _resting(self) -> bool:
        return self.paused or self.asleep or self.engine.updating or not self.play_state.busy()

    def _obey(self, wait_seconds: float) -> None:
        """Run every posted command; wait for the first one if there is nothing else to do."""
        try:
            command, answer = self.commands.get(timeout=wait_seconds) if wait_seconds else self.commands.get_nowait()
            while True:
                self._answer(command, answer)
                command, answer = self.commands.get_nowait()
        except queue.Empty:
            return

    @staticmethod
    def _answer(command: Callable[[], Any], answer: Future | None) -> None:
        """A command's error is its caller's, and the engine thread goes on. It does not after what ends a thread, or
        where nobody waits for the answer."""
        if answer is None:
            command()
        elif answer.set_running_or_notify_cancel():
            try:
                answer.set_result(command())
            except BaseException as error:
                answer.set_exception(error)
                if not isinstance(error, Exception):
                    raise

    def _stop(self, failure: WorkerFailed) -> None:
        with self.lock:
            self.failure = failure
            while not self.commands.empty():
                _, answer = self.commands.get_nowait()
                if answer is not None and answer.set_running_or_notify_cancel():  # else nobody waits for it
                    answer.set_exception(failure)
        self.up.set()
        with self.news:
            self.news.notify_all()

    def _post(self, command: Callable[[], Any], answer: Future | None = None) -> None:
        with self.lock:
            if self.failure is not None:
                raise self.failure
            self.commands.put((command, answer))

    def _call(self, command: Callable[[], Any]) -> Any:
        answer: Future = Future()
        self._post(command, answer)
        try:
            return answer.result(timeout=COMMAND_SECONDS)
        except TimeoutError:
            if not answer.cancel() and answer.done():  # it raised this itself, or was just in time
                return answer.result()
            raise WorkerFailed(f"rollout worker {self.index}: no answer within {COMMAND_SECONDS:.0f} s") from None

    def ready(self) -> int:
        """Make the engine, and wait until it is up; returns this process's id. Imports do not wait for this call."""
        self.wanted.set()
        if not self.up.wait(self.spec.rollout.engine.start_seconds):
            raise WorkerFailed(
                f"rollout worker {self.index}: the engine did not start within "
                f"rollout.engine.start_seconds={self.spec.rollout.engine.start_seconds:.0f}: raise it, or give the "
                "machine less else to do"
            )
        if self.failure is not None:
            raise self.failure
        return os.getpid()

    def alive(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.engine is not None and (why := self.engine.broken()):
            raise WorkerFailed(f"rollout worker {self.index}: {why}")

    def play(self, tickets: list[Ticket], temperature: float | None = None, snapshots: Sequence[Snapshot] = ()) -> None:
        """Take on these tickets, when the engine thread comes to it; each comes back once through `finished`.
        `snapshots`: of episodes that some of them go on with."""
        self._post(lambda: self.play_state.admit(tickets, temperature, snapshots))

    def finished(self, wait_seconds: float) -> Iterator[Report | Episode]:
        """A Report as soon as anything is finished (or after `wait_seconds`), then the episodes
        it lists, in order. As a generator's returns they belong to the caller, and outlive
        this worker."""
        with self.news:
            self.news.wait_for(lambda: self.results or self.failure, timeout=wait_seconds)
            results, self.results = self.results, []
            snapshots, self.snapshots = list(self.snapshots.values()), {}
        if self.failure is not None and not results and not self.closing:
            raise self.failure
        silent = max(time.monotonic() - self.beat, blocked_seconds()) if self.up.is_set() else 0.0
        sampled = self.play_state.sampled if self.up.is_set() else 0
        yield Report([told(each) for each in results], silent, sampled, snapshots)
        for returned in results:
            if not isinstance(returned.result, Failure):
                yield returned.result

    def hurry(self) -> None:
        """Its node is about to go: each answer from now on tells how every episode stands."""
        self._call(self.play_state.keeper.hurry)

    def pause(self) -> None:
        """Returns once no step is under way. Requests and episodes stay as they are."""
        self._call(lambda: setattr(self, "paused", True))

    def resume(self) -> None:
        self._call(lambda: setattr(self, "paused", False))

    def score(self, sequences: list[list[int]]) -> list[np.ndarray]:
        return self._call(lambda: self.engine.score(sequences))

    def sleep(self) -> None:
        """Returns once the engines have given the card's memory back."""
        self._call(self._sleep)

    def _sleep(self) -> None:
        self.asleep = True
        for engine in self._engines():
            engine.sleep()

    def _wake(self) -> None:
        for engine in self._engines():
            engine.wake("weights")
            engine.wake("cache")
        self.asleep = False

    def _engines(self) -> list[Engine]:
        """The policy's and the frozen policies': all of this worker's card."""
        return [policy.engine for policy in self.play_state.cast.policies.values()]

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self._call(lambda: self.engine.init_weight_transfer_engine(init_info))

    def start_weight_update(self) -> None:
        def start() -> None:
            self.engine.wake("weights")
            self.engine.start_weight_update()

        self._call(start)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._call(lambda: self.engine.update_weights(update_info))

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        def finish() -> None:
            self.engine.finish_weight_update(weight_version)
            self._wake()

        self._call(finish)

    def receipt(self) -> Receipt:
        """What the engine says about the last weights it was sent."""
        return self._call(lambda: self.engine.receipt)

    def status(self) -> dict[str, float]:
        """Counters since the start, read beside the engine thread."""
        self.alive()
        play = self.play_state
        return {
            "queued": len(play.queue),
            "live": len(play.live),
            "finished": len(self.results),
            "version": self.engine.version,
            "paused": float(self.paused),
            "busy_seconds": self.busy_seconds,
            **self.engine.metrics(),
        }

    def close(self) -> None:
        """Stop the engine thread and release the engine."""
        self.closing = True
        if not self.wanted.is_set():
            return
        self.thread.join(COMMAND_SECONDS)
