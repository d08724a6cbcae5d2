"""Where episodes are handed in and rewards handed out: a state machine without Ray.

    receive(episode)         at once, in any order      -> prepared ahead, and kept
    missing(names)           when a batch is complete   -> its episodes that are not here
    shape(batch, names)                                 -> its rewards, in ticket order
    refit                    beside all, in a thread    -> published before the next batch

Batches are numbered and shaped once each: asking for the last one again gives the same
answer and counts nothing twice; an older one, or one that leaves a gap, is refused. So the
state is a function of the batches, in order, and a desk that was lost is made good by
restoring an earlier state and shaping the batches since.

`steady`: the next batch waits for a refit that is under way, so that which batch first
meets a new state does not depend on the clock. Otherwise nothing ever waits for a refit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from envs.episode import Episode
from reward_service.shaper import ShapedRewards, Shaper

log = logging.getLogger("parley.rewards")


Name = tuple[int, int]  # of an episode: ticket number and attempt


class DeskError(RuntimeError):
    """A batch that cannot be shaped now; the message says which is due."""


class RewardDesk:
    def __init__(self, shaper: Shaper, *, steady: bool = False, refit_seconds: float = 600.0):
        self.shaper, self.steady, self.refit_seconds = shaper, steady, refit_seconds
        self.next_batch = 0
        self.answer: list[ShapedRewards] | None = None  # to the last batch, unless that was before a restore
        self.here: dict[Name, Episode] = {}
        self.arrival = threading.Condition()  # guards `here`
        self.job: Future | None = None
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="refit")
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()  # spent, by what

    def receive(self, episode: Episode) -> None:
        """May be called beside everything else. What is wrong with an episode, if anything
        is, `shape` will say."""
        started = time.monotonic()
        try:
            self.shaper.prepare(episode)
            self.counts["received"] += 1
        except Exception:
            log.exception("episode %d could not be prepared", episode.ticket.number)
            self.counts["failed_prepares"] += 1
        with self.arrival:
            self.here[name_of(episode)] = episode
            self.arrival.notify_all()
        self.seconds["prepare"] += time.monotonic() - started

    def missing(self, names: Sequence[Name], wait_seconds: float) -> list[int]:
        """Places in `names` of episodes that have not arrived within so many seconds."""
        with self.arrival:
            self.arrival.wait_for(lambda: all(name in self.here for name in names), timeout=wait_seconds)
            return [place for place, name in enumerate(names) if name not in self.here]

    def shape(self, batch: int, names: Sequence[Name]) -> list[ShapedRewards]:
        if batch == self.next_batch - 1 and self.answer is not None:
            self.counts["asked_again"] += 1
            return self.answer
        if batch != self.next_batch:
            raise DeskError(f"batch {batch} cannot be shaped: batch {self.next_batch} is due")
        self._publish()
        started = time.monotonic()
        episodes = self._take(names)
        self.answer = self.shaper.shape(episodes)
        self.next_batch += 1
        self.counts["shaped"] += len(episodes)
        self.seconds["shape"] += time.monotonic() - started
        self._refit()
        return self.answer

    def _take(self, names: Sequence[Name]) -> list[Episode]:
        """The batch's episodes. Ticket numbers grow from batch to batch, so whatever else has
        one of its numbers or a lower one was played in vain and goes too."""
        if absent := self.missing(names, 0.0):
            raise DeskError(f"{len(absent)} episodes of the batch are not here, e.g. {names[absent[0]][0]}")
        with self.arrival:
            episodes = [self.here[name] for name in names]
            newest = max((number for number, _ in names), default=-1)
            self.here = {name: episode for name, episode in self.here.items() if name[0] > newest}
        return episodes

    def _refit(self) -> None:
        if self.job is None and (work := self.shaper.refit()) is not None:
            self.job = self.thread.submit(work)

    def _publish(self) -> None:
        """Take over a refit that is done. One that failed is counted and tried again when
        the next is due: rewards go on with the state there is."""
        if self.job is None or not (self.steady or self.job.done()):
            return
        job, self.job = self.job, None
        try:
            self.shaper.publish(job.result(timeout=self.refit_seconds))
            self.counts["refits"] += 1
        except Exception:
            log.exception("a refit failed")
            self.counts["failed_refits"] += 1

    def metrics(self) -> dict[str, float]:
        counts = ("received", "failed_prepares", "shaped", "asked_again", "refits", "failed_refits")
        return {
            **{f"reward/{name}": float(self.counts[name]) for name in counts},
            **{f"reward/{name}_seconds": self.seconds[name] for name in ("prepare", "shape")},
            "reward/refitting": float(self.job is not None and not self.job.done()),
            **{f"reward/{name}": value for name, value in self.shaper.metrics().items()},
        }

    def state(self) -> dict[str, Any]:
        """A refit under way is finished first, or it would be lost to whoever restores this."""
        if self.steady:
            self._publish()
        return {"next_batch": self.next_batch, "shaper": self.shaper.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.shaper.restore(state["shaper"])
        self.next_batch, self.answer, self.job = state["next_batch"], None, None
        with self.arrival:
            self.here = {}

    def close(self) -> None:
        self.thread.shutdown(wait=False, cancel_futures=True)


def name_of(episode: Episode) -> Name:
    return episode.ticket.number, episode.ticket.attempt
