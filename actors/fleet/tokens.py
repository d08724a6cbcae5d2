"""What became of the tokens that the workers of a fleet sampled: a count without Ray.

    sampled = handed over, with episodes and failed ones + lost with a worker + still with a worker
              + kept: in snapshots of episodes whose worker is lost, until another takes them up

A worker says with each of its answers how many tokens it has sampled in all; so of a worker that is lost what it had
said counts, and nobody knows what it sampled after that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class FleetTokens:
    handed_over: int = 0
    kept: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # by the reason why their worker was given up
    with_worker: dict[int, int] = field(default_factory=dict)
    said: dict[int, int] = field(default_factory=dict)  # what each worker that is there said

    @property
    def sampled(self) -> int:
        return self.handed_over + sum(self.lost.values()) + self.playing

    @property
    def playing(self) -> int:
        return sum(self.with_worker.values()) + self.kept

    def heard(self, worker: int, sampled: int) -> None:
        """Of its newest answer, before what comes with it is handed over."""
        self.with_worker[worker] = self.with_worker.get(worker, 0) + sampled - self.said.get(worker, 0)
        self.said[worker] = sampled

    def hand_over(self, worker: int, tokens: int, wasted: int = 0) -> None:
        """`wasted`: beside them, of a snapshot that the episode could not go on from."""
        self.with_worker[worker] -= tokens + wasted
        self.handed_over += tokens
        if wasted:
            self.lost["snapshot_refused"] += wasted

    def lose(self, worker: int, reason: str, kept: int = 0) -> None:
        """The worker that takes its place begins to count anew."""
        self.said.pop(worker, None)
        self.kept += kept
        if tokens := self.with_worker.pop(worker, 0) - kept:
            self.lost[reason] += tokens

    def take_up(self, worker: int, kept: int) -> None:
        self.kept -= kept
        self.with_worker[worker] = self.with_worker.get(worker, 0) + kept

    def forget(self, kept: int) -> None:
        """Of a snapshot that nobody asked for."""
        self.kept -= kept
        self.lost["snapshot_unused"] += kept
