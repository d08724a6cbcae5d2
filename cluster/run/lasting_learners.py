"""Learners that outlive their ranks.

    a rank dies or is silent --> all ranks start anew --> the last checkpoint, or the beginning
                                         --> the batches since, again --> what was asked, once more

A batch is learned from by each start of the ranks once, in the same order, so what comes out is what would have come
out, bit for bit where the run is deterministic. The ledger knows nothing of it: what waits there stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from ray import ObjectRef
from ray.actor import ActorHandle

from learners.batch.trajectories import Trajectory
from learners.group import LearnerError, LearnerGroup, LearnerLost
from reward_service.shaper import ShapedRewards

log = logging.getLogger("parley.learners")
WINDOW_SECONDS = 3600.0
T = TypeVar("T")


@dataclass(slots=True)
class Learned:
    """A batch that was learned from after the last checkpoint."""

    again: Callable[[], object]
    version: int | None = None  # of the weights after it, as the engines know them; None before they were sent


class LastingLearners:
    def __init__(self, group: LearnerGroup, max_restarts: int, rest: Callable[[], None] | None = None):
        """`rest` puts the engines to sleep, where ranks that start anew have no room beside them."""
        self.group, self.max_restarts, self.rest = group, max_restarts, rest
        self.rested = False  # engines sleep, until they are sent weights
        self.folder: Path | None = None  # of the last checkpoint; None: the beginning
        self.since: list[Learned] = []
        self.lost: list[float] = []  # when ranks were lost
        self.in_a_row = 0  # losses since an answer

    def update(
        self,
        episodes: Sequence[ObjectRef],
        rewards: Sequence[ShapedRewards],
        meanwhile: Callable[[], None] | None = None,
    ) -> dict[str, float]:
        kept = list(episodes)  # so that they stay where they lie
        learned = self._surviving(lambda: self.group.update(kept, rewards, meanwhile))
        self.since.append(Learned(lambda: self.group.update(kept, rewards)))
        return learned

    def update_on(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        learned = self._surviving(lambda: self.group.update_on(trajectories))
        self.since.append(Learned(lambda: self.group.update_on(trajectories)))
        return learned

    def send_weights(self, workers: Sequence[ActorHandle], version: int) -> dict[str, int]:
        digests = self._surviving(lambda: self.group.send_weights(workers, version))
        self.rested = False
        if self.since:
            self.since[-1].version = version
        return digests

    def score(self, sequences: Sequence[Sequence[int]]) -> list[np.ndarray]:
        return self._surviving(lambda: self.group.score(sequences))

    def advantages(self) -> dict[tuple[int, str], np.ndarray]:
        return self._surviving(self.group.advantages)

    def blind_to(self, file: Path) -> list[int]:
        return self._surviving(lambda: self.group.blind_to(file))

    def save(self, folder: Path) -> None:
        """Part of a checkpoint that is being written; `saved` says where it is when it is whole."""
        self._surviving(lambda: self.group.save(folder))

    def export(self, folder: Path) -> None:
        self._surviving(lambda: self.group.export(folder))

    def saved(self, folder: Path) -> None:
        """A restart begins here from now on."""
        self.folder, self.since = folder, []

    def load(self, folder: Path) -> None:
        self._surviving(lambda: self.group.load(folder))
        self.saved(folder)

    def metrics(self) -> dict[str, float]:
        return {"learner/restarts": float(len(self.lost))}

    def _surviving(self, ask: Callable[[], T]) -> T:
        """The answer of these ranks, or of those that replace them."""
        while True:
            try:
                answer = ask()
            except LearnerLost as error:
                self._replace(error)
            else:
                self.in_a_row = 0
                return answer

    def _replace(self, error: LearnerLost) -> None:
        """Start all ranks anew, at the state that they had. Ranks that are lost meanwhile count too."""
        while True:
            now = time.monotonic()
            self.lost.append(now)
            self.in_a_row += 1
            most = self.max_restarts
            if sum(now - then < WINDOW_SECONDS for then in self.lost) > most:
                raise LearnerLost(f"{error}; learner.max_restarts={most} within an hour") from error
            if self.in_a_row > most:  # however long each of them took
                raise LearnerLost(f"{error}; learner.max_restarts={most} without an answer between them") from error
            log.warning("the learners are lost and start anew: %s", error)
            if self.rest is not None:
                self.rest()
                self.rested = True
            try:
                self.group.restart()
                if self.folder is not None:
                    self.group.load(self.folder)
                for each in self.since:
                    each.again()
                    if each.version is not None:
                        self.group.adopt(each.version)
                return
            except LearnerLost as again:
                error = again
            except LearnerError as failed:
                raise LearnerLost(f"the learners did not start anew after {error}: {failed}") from failed
