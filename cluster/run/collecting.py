"""The games that a run trains on: tickets of the ledger, played as it admits them.

ledger --tickets--> playing --results--> ledger --the next batch, whole--> the training loop
                               |
                               +--episodes, as they arrive--> deliver
"""

from __future__ import annotations

from collections.abc import Callable

from ray import ObjectRef

from actors.fleet import Finished
from cluster.errors import RunError
from cluster.record.progress import Progress
from cluster.run.ledger import Ledger
from cluster.run.playing import Playing


class Collector:
    def __init__(self, playing: Playing, ledger: Ledger, until_batch: int, deliver: Callable[[list[ObjectRef]], None]):
        """No game of batch `until_batch` or later is played. `deliver` is given the episodes as they arrive."""
        self.playing, self.ledger, self.until_batch, self.deliver = playing, ledger, until_batch, deliver

    def batch(self) -> list[Finished]:
        """Results of the ledger's next batch, in the order of their tickets."""
        ledger = self.ledger
        self.playing.wait(f"batch {ledger.next_batch}", self._progress, self._admit)
        results = ledger.next_results()
        if not results:
            reasons = ", ".join(f"{reason}: {n}" for reason, n in ledger.counts.dropped.items())
            raise RunError(f"every episode of batch {ledger.next_batch} was dropped ({reasons})")
        return results

    def _admit(self) -> None:
        self.playing.start(self.ledger.admit(self.until_batch), self._file)

    def _file(self, results: list[Finished]) -> None:
        for finished in results:
            if finished.reason is None:
                self.ledger.finish(finished.ticket, finished)
            else:
                self.ledger.fail(finished.ticket, finished.reason)
        if arrived := [finished.ref for finished in results if finished.reason is None]:
            self.deliver(arrived)

    def _progress(self) -> Progress:
        ledger = self.ledger
        return self.playing.progress(ledger.next_batch, ledger.batch - len(ledger.missing()), ledger.batch)
