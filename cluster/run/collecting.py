"""The games that a run trains on: tickets of the ledger, played as it admits them.

ledger --tickets--> playing --results--> ledger --the next batch, whole--> the training loop
   ^                           |   |
   +---- draw_again <----------+   +--episodes, as they arrive--> deliver

A group whose games all went alike has nothing to compare. With `group_redraws` it is played anew on another task of
the same batch (dynamic sampling), so many times; then it is learned from as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from ray import ObjectRef

from actors.fleet.fleet import Finished
from cluster.errors import RunError
from cluster.record.progress import Progress
from cluster.run.ledger import Ledger
from cluster.run.playing import Playing
from cluster.run.securing import LOST, secure
from envs.episode import Ticket

EQUAL = 1e-6  # what games paid that differs by no more is the same


class Collector:
    def __init__(
        self,
        playing: Playing,
        ledger: Ledger,
        until_batch: int,
        deliver: Callable[[list[ObjectRef]], None],
        group_redraws: int = 0,
    ):
        """No game of batch `until_batch` or later is played. `deliver` is given the episodes as they arrive."""
        self.playing, self.ledger, self.until_batch, self.deliver = playing, ledger, until_batch, deliver
        self.group_redraws = group_redraws
        playing.holders.append(ledger)
        self.to_judge: set[int] = set()  # groups that something became of since they were last looked at

    def batch(self) -> list[Finished]:
        """Results of the ledger's next batch, in the order of their tickets."""
        ledger = self.ledger
        while True:
            self.playing.wait(f"batch {ledger.next_batch}", self._progress, self._admit)
            kept, lost = secure(ledger.next_results())
            if not lost:
                break
            for result in lost:
                self.playing.lose(result)
                ledger.lose(result.ticket, LOST)
                self._came_of(result.ticket)
        for result in kept:
            ledger.keep(result.ticket, result)
        results = ledger.next_results()
        if not results:
            reasons = ", ".join(f"{reason}: {n}" for reason, n in ledger.counts.dropped.items())
            raise RunError(f"every episode of batch {ledger.next_batch} was dropped ({reasons})")
        return results

    def _admit(self) -> None:
        self._judge()
        self.playing.start(self.ledger.admit(self.until_batch), self._file)

    def _judge(self) -> None:
        """Draw groups without spread again. With max_staleness 0 not before nothing is played any more: what an
        engine computes together must not depend on who was first."""
        ledger = self.ledger
        if not self.group_redraws or (ledger.max_staleness == 0 and ledger.playing):
            return
        groups, self.to_judge = sorted(self.to_judge), set()
        for group in groups:
            results = ledger.results_of(group)
            if results and not has_spread(results) and ledger.draws.get(group, 0) < self.group_redraws:
                ledger.draw_again(group)
                for result in results:
                    self.playing.drop(result, "no_spread")

    def _file(self, results: list[Finished]) -> None:
        for finished in results:
            if finished.reason is None:
                if not self.ledger.is_live(finished.ticket):
                    self.playing.drop(finished, "late")
                self.ledger.finish(finished.ticket, finished)
            else:
                self.ledger.fail(finished.ticket, finished.reason)
            self._came_of(finished.ticket)
        if arrived := [finished.ref for finished in results if finished.reason is None]:
            self.deliver(arrived)

    def _came_of(self, ticket: Ticket) -> None:
        if self.group_redraws:
            self.to_judge.add(ticket.number // self.ledger.group)

    def _progress(self) -> Progress:
        ledger = self.ledger
        return self.playing.progress(ledger.next_batch, ledger.batch - len(ledger.missing()), ledger.batch)


def has_spread(group: Sequence[Finished]) -> bool:
    """Whether a seat of the policy fared better in one game of a task than in another. One game alone is compared
    with nothing, and says nothing."""
    fared = [result.summary.fared for result in group]
    return len(fared) < 2 or any(np.ptp(seat, axis=0).max() > EQUAL for seat in zip(*fared, strict=True))


def without_spread(batch: Sequence[Finished], group: int) -> float:
    """The share of a batch's groups of which no game went better than another."""
    groups: dict[int, list[Finished]] = {}
    for result in batch:
        groups.setdefault(result.ticket.number // group, []).append(result)
    return float(np.mean([not has_spread(results) for results in groups.values()]))
