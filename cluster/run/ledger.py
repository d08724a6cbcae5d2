"""The experience ledger: which episodes exist, and that each is used exactly once.

Ticket number n belongs to batch n // batch. Batches are consumed in order, and ticket n
may be issued only while

    n < consumed + (max_staleness + 1) * batch            (admission)

so when batch b is trained on, none of its tokens was made by weights older than version
b - max_staleness. That bounds staleness by construction: no episode is ever thrown away
for being old. The price is that the slowest episode of a batch holds the batch up, which
the time limit of an episode bounds in turn.

Tickets n with the same n // group are one task: they have one seed and thus one game, and
their numbers make them play it in different ways. A batch is whole groups, so the games of
a task are trained on together, also after a restart. A group never waits for a member that
was dropped: its batch goes on with the others, and one that is left alone is used like any
other (credit that compares games finds nobody to compare it with).

A group whose games are all there may be drawn again: on another task, which its numbers alone decide,
so what a batch is made of depends on how games ended and never on how fast. It stays in its batch.

At every moment, counting every issue of a ticket:

    issued = consumed + in_flight + reissued + redrawn + sum(dropped.values())

where in_flight = playing + waiting, and an issue whose episode failed counts as reissued
(the ticket goes out again) or dropped (it failed max_attempts times); redrawn are those whose episode was
played and given back for that of another task. A result for an
issue that is no longer live (a worker given up for dead that answers after all) is
counted in `late` and changes nothing else: nothing is used twice.

Plain Python without Ray, so that every transition can be tested in microseconds. There
is no transition from consumed back to anything.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from envs.episode import Ticket

TRAINING_SEEDS = 1_000_000  # training games are seeded below this, held-out games from it on


def training_seed(run_seed: int, task: int, draw: int = 0) -> int:
    """Of the run's task number `task`, counted from 0; or of those that are drawn in its place, from 1 on."""
    name = f"{run_seed}/{task}" + (f"/{draw}" if draw else "")
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % TRAINING_SEEDS


@dataclass(slots=True)
class LedgerCounts:
    issued: int = 0
    consumed: int = 0
    reissued: int = 0
    redrawn: int = 0
    late: int = 0
    dropped: Counter = field(default_factory=Counter)


class Ledger:
    def __init__(
        self,
        run: str,
        game: str,
        players: tuple[tuple[str, str], ...],
        *,
        seed: int,
        batch: int,
        max_staleness: int,
        max_attempts: int,
        group: int = 1,
    ):
        if batch % group:
            raise ValueError(f"a batch of {batch} episodes is not made of whole groups of {group}")
        self.run, self.game, self.players, self.seed = run, game, players, seed
        self.batch, self.max_staleness, self.max_attempts = batch, max_staleness, max_attempts
        self.group = group
        self.counts = LedgerCounts()
        self.next_number = 0  # first ticket never issued
        self.next_batch = 0  # first batch not consumed
        self.playing: dict[int, Ticket] = {}
        self.waiting: dict[int, Any] = {}  # finished, not yet consumed: number -> result
        self.to_reissue: list[Ticket] = []
        self.gone: dict[int, str] = {}  # dropped numbers of batches not yet consumed -> reason
        self.draws: dict[int, int] = {}  # group of a batch not yet consumed -> how often it was drawn again

    def admit(self, until_batch: int | None = None) -> list[Ticket]:
        """Tickets to play now: failed ones first, then new ones up to the admission bound.
        `until_batch` closes the gate at the end of a run: no ticket of that batch or later."""
        tickets, self.to_reissue = self.to_reissue, []
        limit = (self.next_batch + self.max_staleness + 1) * self.batch
        if until_batch is not None:
            limit = min(limit, until_batch * self.batch)
        while self.next_number < limit:
            number = self.next_number
            tickets.append(self._ticket(number))
            self.next_number += 1
        for ticket in tickets:
            self.playing[ticket.number] = ticket
        self.counts.issued += len(tickets)
        return tickets

    def _ticket(self, number: int) -> Ticket:
        task = number // self.group
        draw = self.draws.get(task, 0)
        seed = training_seed(self.seed, task, draw)
        return Ticket(self.run, self.game, number, seed, self.players, draw * self.max_attempts)

    def is_live(self, ticket: Ticket) -> bool:
        return self.playing.get(ticket.number) == ticket

    def finish(self, ticket: Ticket, result: Any) -> None:
        if not self.is_live(ticket):
            self.counts.late += 1
            return
        del self.playing[ticket.number]
        self.waiting[ticket.number] = result

    def fail(self, ticket: Ticket, reason: str) -> None:
        if not self.is_live(ticket):
            self.counts.late += 1
            return
        del self.playing[ticket.number]
        if (ticket.attempt + 1) % self.max_attempts == 0:  # each draw has so many
            self.counts.dropped[reason] += 1
            self.gone[ticket.number] = reason
        else:
            self.counts.reissued += 1
            again = Ticket(self.run, self.game, ticket.number, ticket.seed, self.players, ticket.attempt + 1)
            self.to_reissue.append(again)

    def lose(self, ticket: Ticket, reason: str) -> None:
        """A finished episode is gone before it was used: it counts as if it had failed."""
        del self.waiting[ticket.number]
        self.playing[ticket.number] = ticket
        self.fail(ticket, reason)

    def keep(self, ticket: Ticket, result: Any) -> None:
        """The same result, at another place."""
        if ticket.number not in self.waiting:
            raise RuntimeError(f"ticket {ticket.number} has no result that waits")
        self.waiting[ticket.number] = result

    def results_of(self, group: int) -> list[Any] | None:
        """Of a group's games, in ticket order; None while one of them is missing."""
        numbers = range(group * self.group, (group + 1) * self.group)
        if any(number not in self.waiting and number not in self.gone for number in numbers):
            return None
        return [self.waiting[number] for number in numbers if number in self.waiting]

    def draw_again(self, group: int) -> None:
        """Another task in place of that of a group whose games are all there; they are not trained on."""
        results = self.results_of(group)
        if results is None:
            raise RuntimeError(f"group {group} still misses games, or was consumed: it cannot be drawn again")
        self.draws[group] = self.draws.get(group, 0) + 1
        self.counts.redrawn += len(results)
        for number in range(group * self.group, (group + 1) * self.group):
            self.waiting.pop(number, None)
            self.gone.pop(number, None)
            self.to_reissue.append(self._ticket(number))

    def missing(self) -> list[int]:
        """Numbers of the next batch that have neither finished nor been dropped."""
        first = self.next_batch * self.batch
        return [n for n in range(first, first + self.batch) if n not in self.waiting and n not in self.gone]

    def next_results(self) -> list[Any]:
        """Results of the next batch in ticket order. They stay in the ledger until
        `consume`, so that a failure while they are trained on loses nothing."""
        if self.missing():
            raise RuntimeError(f"batch {self.next_batch} still misses {len(self.missing())} episodes")
        first = self.next_batch * self.batch
        return [self.waiting[n] for n in range(first, first + self.batch) if n in self.waiting]

    def consume(self) -> None:
        """The next batch has been trained on: it is never offered again."""
        first = self.next_batch * self.batch
        for number in range(first, first + self.batch):
            if self.waiting.pop(number, None) is not None:
                self.counts.consumed += 1
            self.gone.pop(number, None)
            self.draws.pop(number // self.group, None)
        self.next_batch += 1

    @property
    def in_flight(self) -> int:
        return len(self.playing) + len(self.waiting)

    def check(self) -> None:
        """The equation in the module's docstring; called once an update."""
        counts = self.counts
        total = counts.consumed + self.in_flight + counts.reissued + counts.redrawn + sum(counts.dropped.values())
        if counts.issued != total:
            raise RuntimeError(
                f"ledger does not balance: issued {counts.issued}, but consumed {counts.consumed} + in flight "
                f"{self.in_flight} + reissued {counts.reissued} + redrawn {counts.redrawn} + dropped "
                f"{sum(counts.dropped.values())} = {total}"
            )

    def metrics(self) -> dict[str, float]:
        counts = self.counts
        flat = {
            "ledger/issued": counts.issued,
            "ledger/consumed": counts.consumed,
            "ledger/playing": len(self.playing),
            "ledger/waiting": len(self.waiting),
            "ledger/reissued": counts.reissued,
            "ledger/redrawn": counts.redrawn,
            "ledger/late": counts.late,
            "ledger/dropped": sum(counts.dropped.values()),
        }
        return flat | {f"ledger/dropped/{reason}": n for reason, n in counts.dropped.items()}

    def state(self) -> dict:
        """What a checkpoint holds. Episodes in flight are not saved: their tickets are."""
        return {
            "counts": asdict(self.counts) | {"dropped": dict(self.counts.dropped)},
            "next_number": self.next_number,
            "next_batch": self.next_batch,
            "open": sorted([*self.playing, *self.waiting, *(ticket.number for ticket in self.to_reissue)]),
            "gone": {str(number): reason for number, reason in self.gone.items()},
            "draws": {str(group): draw for group, draw in self.draws.items()},
        }

    def restore(self, state: dict) -> None:
        """Continue a saved run: tickets that were open are issued again with the same
        numbers and seeds, and count as reissued like those of a lost worker."""
        counts = dict(state["counts"])
        self.counts = LedgerCounts(**counts | {"dropped": Counter(counts["dropped"])})
        self.next_number, self.next_batch = state["next_number"], state["next_batch"]
        self.gone = {int(number): reason for number, reason in state["gone"].items()}
        self.draws = {int(group): draw for group, draw in state.get("draws", {}).items()}
        self.playing, self.waiting = {}, {}
        used = self.counts.consumed + self.counts.redrawn + sum(self.counts.dropped.values())
        self.counts.reissued = self.counts.issued - used
        self.to_reissue = [self._ticket(number) for number in state["open"]]
