"""All rollout workers, from the driver's side.

    assign(tickets) -> workers play -> poll() -> Finished

The fleet has no threads: it learns of everything inside `poll` and the calls that reach
all workers. Every assigned ticket comes back from `poll` exactly once, as an episode or
with the reason why there is none:

    assigned = waiting for a worker + with a worker + returned

A worker that dies, fails or falls silent gives its tickets back and is replaced, unless that
happened too often: then its place rests for a while, and the others go on. The
replacement waits in `joining()` until the caller has given it the current weights and says
so with `joined(worker)`; only then is it given work.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import ray
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, ObjectLostError, OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from actors.fleet.finished import Finished
from actors.fleet.health import UP, FleetHealth, State
from actors.fleet.metrics import totals
from actors.fleet.processes import WorkerProcesses, last_line
from actors.fleet.tokens import FleetTokens
from actors.play.snapshots import Snapshot
from actors.settings import RolloutSettings
from actors.transport.receipt import Receipt
from actors.worker import Report
from actors.worker_parts import WorkerSpec
from envs.episode import Ticket

log = logging.getLogger("parley.fleet")
LISTEN_SECONDS = 2.0  # longest a worker holds back its answer when nothing is finished
FETCH_SECONDS = 60.0  # for an answer that has begun to arrive whole
PING_SECONDS = 10.0


class Fleet:
    def __init__(
        self,
        settings: RolloutSettings,
        spec: WorkerSpec,
        places: Sequence[PlacementGroupSchedulingStrategy] | None = None,
    ):
        """`places`: each worker's, where somebody else has made them and will give them back."""
        self.settings = settings
        self.processes = WorkerProcesses(settings, spec, places, self._ended)
        self.listening: dict[int, ray.ObjectRefGenerator] = {}  # worker -> its `finished` call
        self.with_worker: list[dict[Ticket, None]] = [{} for _ in range(settings.most_workers)]
        self.snapshots: dict[Ticket, Snapshot] = {}  # the newest of each episode that is played and has one
        self.rescued: dict[Ticket, Snapshot] = {}  # of lost workers' episodes, by the ticket that goes on with it
        self.waiting: list[tuple[Ticket, float | None]] = []
        self.returned: list[Finished] = []
        self.tokens = FleetTokens()
        self.counters = {"assigned": 0, "returned": 0, "failed": 0, "resumed": 0, "refused": 0}
        self.said: dict[int, Mapping[str, float]] = {}  # the last status of each worker
        self.of_lost: Counter[str] = Counter()  # the sums of those that are gone

    @property
    def health(self) -> FleetHealth:
        return self.processes.health

    @property
    def handles(self) -> dict[int, ActorHandle]:
        return self.processes.handles

    # The workers

    def prepare(self) -> None:
        """Begin to start the workers' processes, without their engines."""
        self.processes.prepare()

    def launch(self) -> None:
        """Begin to start the workers; `start` waits for them."""
        self.processes.launch()

    def start(self) -> None:
        """Wait until every worker's engine is up. The first failure stops the start."""
        if self.health is None:
            self.launch()
        self.processes.start()

    @contextmanager
    def no_starts(self) -> Iterator[None]:
        """Time in which no engine starts: one that does measures what is free of its card, and takes
        more than it keeps. Engines that are starting are waited for; a lost one is replaced after it."""
        with self.processes.no_starts():
            while self.processes.starting:
                self._look(LISTEN_SECONDS, patient=True)
            yield

    def _ended(self, index: int, reason: str) -> None:
        """Take a worker's tickets back, and keep how their episodes stood."""
        self.listening.pop(index, None)
        self.of_lost.update(self.said.pop(index, {}))
        found = [self.snapshots.pop(ticket) for ticket in self.with_worker[index] if ticket in self.snapshots]
        self.tokens.lose(index, reason, sum(snapshot.tokens for snapshot in found))
        self.rescued |= {snapshot.next_ticket: snapshot for snapshot in found}
        for ticket in self.with_worker[index]:
            self._return(Finished(ticket, None, reason, None, worker=index))
        self.with_worker[index] = {}
        most = self.settings.most_workers * self.settings.episodes_in_flight
        for ticket in list(self.rescued)[:-most]:  # nobody asks for it any more
            self.tokens.forget(self.rescued.pop(ticket).tokens)

    def workers(self) -> list[ActorHandle]:
        """Every worker that can take weights: those that play and those about to join."""
        return [self.handles[index] for index in self.health.in_state(*UP)]

    def joining(self) -> list[ActorHandle]:
        """Workers that are up but hold the weights they were started with."""
        return [self.handles[index] for index in self.health.in_state(State.JOINING)]

    def playing(self) -> list[int]:
        """Workers that play, or would."""
        return self.health.in_state(State.LIVE, State.SUSPECT)

    def joined(self, worker: ActorHandle) -> None:
        """The caller has given this worker the current weights."""
        self.health.joined(next(index for index, handle in self.handles.items() if handle == worker))

    @property
    def gone(self) -> int:
        """How many workers were lost or left so far."""
        return self.health.gone

    @property
    def draining(self) -> frozenset[str]:
        """Nodes that are about to go."""
        return self.processes.draining

    def replace_lost(self) -> bool:
        """Ask every worker whether it is there; replace those that are not. True if any is gone."""
        before = self.health.gone
        self._everyone("alive", PING_SECONDS)
        return self.health.gone > before

    # Work

    def assign(self, tickets: list[Ticket], temperature: float | None = None) -> None:
        """Hand out tickets (temperature: other than the settings', for evaluation). Ticket n goes to
        live worker n mod workers, so that the same tickets meet the same worker in every run (while
        none of them is suspect); one that is full passes its tickets to the least busy."""
        self.counters["assigned"] += len(tickets)
        self.waiting += [(ticket, temperature) for ticket in tickets]
        self._hand_out()

    def _hand_out(self) -> None:
        live = self.health.in_state(State.LIVE)
        if not live or not self.waiting:
            return
        parcels: dict[tuple[int, float | None], list[Ticket]] = {}
        for ticket, temperature in self.waiting:
            index = live[ticket.number % len(live)]
            if len(self.with_worker[index]) >= self.settings.episodes_in_flight:
                index = min(live, key=lambda other: (len(self.with_worker[other]), other))
            self.with_worker[index][ticket] = None
            parcels.setdefault((index, temperature), []).append(ticket)
        self.waiting = []
        for (index, temperature), tickets in parcels.items():
            # if it fails, so does the listening call
            self.handles[index].play.remote(tickets, temperature, self._go_on_with(index, tickets))

    def _go_on_with(self, index: int, tickets: list[Ticket]) -> list[Snapshot]:
        """What a worker is given beside these tickets."""
        found = {ticket: self.rescued.pop(ticket) for ticket in tickets if ticket in self.rescued}
        self.snapshots |= {ticket: replace(snapshot, ticket=ticket) for ticket, snapshot in found.items()}
        self.counters["resumed"] += len(found)
        self.tokens.take_up(index, sum(snapshot.tokens for snapshot in found.values()))
        return list(found.values())

    def poll(self, timeout: float) -> list[Finished]:
        """What finished; waits up to `timeout` seconds for the first of it."""
        deadline = time.monotonic() + timeout
        while True:
            self._hand_out()
            self._look(max(0.0, deadline - time.monotonic()))
            if self.returned or time.monotonic() >= deadline:
                returned, self.returned = self.returned, []
                return returned

    def _look(self, timeout: float, patient: bool = False) -> None:
        """`patient`: also where something has come back that nobody has asked for yet."""
        self._listen(timeout if patient or not self.returned else 0.0)
        self.processes.look_after(lambda index: bool(self.with_worker[index]))

    def _listen(self, timeout: float) -> None:
        for index in self.health.in_state(*UP):
            if index not in self.listening:
                call = self.handles[index].finished.options(num_returns="streaming")
                self.listening[index] = call.remote(min(LISTEN_SECONDS, self.health.suspect_seconds / 2))
                self.health.asked(index, time.monotonic())
        asked = {call: index for index, call in self.listening.items()}
        starting = {call: index for index, call in self.processes.starting.items()}
        calls = [*asked, *starting]
        if not calls:  # no worker is there: Ray would not wait
            return time.sleep(min(timeout, 0.2))
        ray.wait(calls, timeout=timeout)  # for the first of them
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=0.0)
        for call in ready:
            if call in starting:
                self._guarded(starting[call], self._started, call)
            else:
                self._guarded(asked[call], self._heard, call)

    def _guarded(self, index: int, hear, call) -> None:
        try:
            hear(index, call)
        except (RayActorError, OutOfMemoryError) as error:
            self.processes.lose(index, "worker_died", last_line(error))
        except RayTaskError as error:
            log.error("rollout worker %d: %s", index, error)
            self.processes.lose(index, "worker_failed", last_line(error))
        except (GetTimeoutError, ObjectLostError):  # a long answer is lost with its node
            self.processes.lose(index, "worker_silent")
        except RayError as error:  # its node has no room, or not what a process of this run needs
            self.processes.lose(index, "worker_failed", last_line(error))

    def _started(self, index: int, call: ray.ObjectRef) -> None:
        ray.get(call, timeout=FETCH_SECONDS)
        self.processes.started(index)

    def _heard(self, index: int, call: ray.ObjectRefGenerator) -> None:
        report: Report = ray.get(self._next(call), timeout=FETCH_SECONDS)
        refs = [None if result.reason else self._next(call) for result in report.results]
        ray.get(call.completed(), timeout=FETCH_SECONDS)  # an answer that breaks off is no answer
        del self.listening[index]
        self.health.answered(index, report.silent_seconds)
        self.tokens.heard(index, report.sampled)
        self.snapshots |= {each.ticket: each for each in report.snapshots if each.ticket in self.with_worker[index]}
        for result, ref in zip(report.results, refs, strict=True):
            if result.ticket in self.with_worker[index]:
                del self.with_worker[index][result.ticket]
                self.snapshots.pop(result.ticket, None)
                self.tokens.hand_over(index, result.tokens, result.wasted)
                self.counters["refused"] += result.wasted > 0
                what, node = result.what, self.processes.places.node(index)
                found = Finished(result.ticket, ref, result.reason, result.summary, result.tokens, node, index, what)
                self._return(found)
        if report.silent_seconds > self.settings.worker_silence_seconds:
            self.processes.lose(index, "worker_stuck")

    @staticmethod
    def _next(call: ray.ObjectRefGenerator) -> ray.ObjectRef:
        ready, _ = ray.wait([call], timeout=FETCH_SECONDS)
        if not ready:
            raise GetTimeoutError("the rest of an answer did not arrive")
        try:
            return next(call)
        except StopIteration:  # the answer broke off; why is said at its end
            ray.get(call.completed(), timeout=FETCH_SECONDS)
            raise GetTimeoutError("an answer was shorter than it said") from None

    def _return(self, finished: Finished) -> None:
        self.counters["returned"] += 1
        self.counters["failed"] += finished.reason is not None
        self.returned.append(finished)

    # Calls that reach every worker

    def _everyone(self, method: str, timeout: float, *arguments: Any) -> dict[int, Any]:
        """Answers of all workers, by their number; those that cannot answer are lost, not waited for."""
        everyone = self.health.in_state(*UP)
        calls = {index: getattr(self.handles[index], method).remote(*arguments) for index in everyone}
        deadline, answers = time.monotonic() + timeout, {}

        def hear(index: int, call: ray.ObjectRef) -> None:
            left = max(0.0, deadline - time.monotonic())
            if not ray.wait([call], timeout=left, fetch_local=False)[0]:
                raise GetTimeoutError("no answer in time")
            answers[index] = ray.get(call, timeout=FETCH_SECONDS)  # of one whose turn comes late, too

        for index, call in calls.items():
            self._guarded(index, hear, call)
        return answers

    def pause(self) -> None:
        """Returns once no worker takes another step."""
        self._everyone("pause", self.settings.worker_silence_seconds)

    def resume(self) -> None:
        self._everyone("resume", self.settings.worker_silence_seconds)

    def sleep(self) -> None:
        """Returns once every engine has given its card's memory back; each wakes with its next
        weight update."""
        self._everyone("sleep", self.settings.worker_silence_seconds)

    def score(self, sequences: list[list[int]]) -> dict[int, list[np.ndarray]]:
        """By worker, its log-probs of these token ids, from its engine's current weights."""
        return self._everyone("score", self.settings.worker_silence_seconds, sequences)

    def receipts(self) -> dict[int, Receipt]:
        """By worker, what it says about the last weights that it was sent."""
        return self._everyone("receipt", self.settings.worker_silence_seconds)

    def status(self) -> list[dict[str, float]]:
        return list(self._everyone("status", PING_SECONDS).values())

    def metrics(self) -> dict[str, float]:
        self.said = self._everyone("status", PING_SECONDS)
        return totals(list(self.said.values()), self.of_lost) | {
            "fleet/suspect": float(len(self.health.in_state(State.SUSPECT))),
            "fleet/pending": float(len(self.health.in_state(State.PENDING))),
            "fleet/leaving": float(len(self.health.in_state(State.LEAVING))),
            "fleet/left": float(self.health.left_count),
            "fleet/node_questions_failed": float(self.processes.news.failed),
            "fleet/restarts": float(self.health.restarts),
            "fleet/resumed": float(self.counters["resumed"]),
            "fleet/snapshots_refused": float(self.counters["refused"]),
            "fleet/waiting": float(len(self.waiting)),
            "fleet/failed": float(self.counters["failed"]),
        }

    def close(self) -> None:
        """End every worker that this fleet started and give its place back."""
        self.processes.close()
