"""One stream of results from the fleet, sorted to whoever asked for the episodes.

Training tickets go to the ledger; held-out tickets to the evaluation that is waiting for
them. While either waits, results of the other are filed, never lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from ray import ObjectRef

from actors.fleet import Finished, Fleet
from cluster.errors import RunError
from cluster.record.progress import Progress
from cluster.run.ledger import Ledger
from envs.episode import Ticket

HELD_OUT_NUMBERS = 10**9  # ticket numbers of held-out games start here, far above any training ticket

POLL_SECONDS = 1.0


class Playing:
    def __init__(
        self,
        fleet: Fleet,
        ledger: Ledger,
        welcome: Callable[[], None],
        deliver: Callable[[list[ObjectRef]], None],
        batch_seconds: float,
    ):
        """`welcome` is called while there are workers that joined and have not played yet; it
        gives them their weights. `deliver` is given the training episodes as they arrive."""
        self.fleet, self.ledger, self.welcome, self.deliver = fleet, ledger, welcome, deliver
        self.batch_seconds = batch_seconds
        self.held_out: dict[int, Finished | Ticket] = {}
        self.failures: Counter[str] = Counter()
        self.on_poll: Callable[[Progress], None] | None = None  # called after each poll

    def collect_batch(self, until_batch: int) -> list[Finished]:
        """Results of the ledger's next batch, issuing tickets as the ledger admits them."""
        deadline = time.monotonic() + self.batch_seconds
        self.fleet.assign(self.ledger.admit(until_batch))
        while self.ledger.missing():
            self._poll(deadline, f"batch {self.ledger.next_batch}", len(self.ledger.missing()))
            self.fleet.assign(self.ledger.admit(until_batch))
        results = self.ledger.next_results()
        if not results:
            reasons = ", ".join(f"{reason}: {n}" for reason, n in self.ledger.counts.dropped.items())
            raise RunError(f"every episode of batch {self.ledger.next_batch} was dropped ({reasons})")
        return results

    def play_held_out(
        self, tickets: list[Ticket], max_attempts: int, temperature: float | None = None
    ) -> list[Finished]:
        """Play held-out tickets to the end, in ticket order. One that keeps failing stops
        the run: an evaluation with holes would not be comparable."""
        deadline = time.monotonic() + self.batch_seconds
        self.held_out = {ticket.number: ticket for ticket in tickets}
        self.fleet.assign(tickets, temperature)
        while open_ := [item for item in self.held_out.values() if isinstance(item, Ticket)]:
            self._poll(deadline, "the evaluation", len(open_))
            again = [self._again(n, item, max_attempts) for n, item in self.held_out.items() if self._failed(item)]
            self.fleet.assign(again, temperature)
        finished, self.held_out = [self.held_out[n] for n in sorted(self.held_out)], {}
        return finished

    @staticmethod
    def _failed(item: Finished | Ticket) -> bool:
        return isinstance(item, Finished) and item.reason is not None

    def _again(self, number: int, failed: Finished, max_attempts: int) -> Ticket:
        old = failed.ticket
        if old.attempt + 1 >= max_attempts:
            raise RunError(f"held-out game with seed {old.seed} failed {max_attempts} times, last: {failed.reason}")
        ticket = Ticket(old.run, old.game, old.number, old.seed, old.players, old.attempt + 1)
        self.held_out[number] = ticket
        return ticket

    def _poll(self, deadline: float, what: str, missing: int) -> None:
        self.listen(POLL_SECONDS)
        if self.fleet.joining():
            self.welcome()
        if self.on_poll is not None:
            self.on_poll(self.progress())
        if missing and time.monotonic() > deadline:
            reasons = ", ".join(f"{reason}: {n}" for reason, n in self.failures.items()) or "none"
            raise RunError(
                f"{what} still misses {missing} episodes after rollout.batch_seconds={self.batch_seconds:.0f}; "
                f"failures so far: {reasons}"
            )

    def progress(self) -> Progress:
        failures = sum(self.failures.values())
        if self.held_out:
            missing = sum(isinstance(item, Ticket) for item in self.held_out.values())
            return Progress(None, len(self.held_out) - missing, len(self.held_out), failures)
        missing = len(self.ledger.missing())
        return Progress(self.ledger.next_batch, self.ledger.batch - missing, self.ledger.batch, failures)

    def listen(self, seconds: float) -> None:
        """File what finishes within so many seconds. Whoever waits for something else calls this
        meanwhile: workers are kept busy, and rewards are prepared before they are asked for."""
        arrived = [reference for each in self.fleet.poll(seconds) if (reference := self._file(each))]
        if arrived:
            self.deliver(arrived)

    def _file(self, finished: Finished) -> ObjectRef | None:
        """The episode, if it is one to train on."""
        ticket = finished.ticket
        if finished.reason is not None:
            self.failures[finished.reason] += 1
        if ticket.number >= HELD_OUT_NUMBERS:
            if self.held_out.get(ticket.number) == ticket:  # else: late answer of an issue given up
                self.held_out[ticket.number] = finished
        elif finished.reason is None:
            live = self.ledger.is_live(ticket)
            self.ledger.finish(ticket, finished)
            return finished.ref if live else None
        else:
            self.ledger.fail(ticket, finished.reason)
        return None
