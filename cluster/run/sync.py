"""Weights from the learners to the engines, proved each time.

    pause every engine (requests stay) -> transfer -> compare digests -> probe -> resume

Digests, at every sync: the trainer's of each tensor that it sends against each engine's of
what arrived and of what it holds after loading. They prove the bytes. The probe, at the first
sync, when a worker joins, and every `learner.sync.probe_every` updates: the policy's own
games, scored by every engine and by the trainer's forward pass. It proves that the bytes are
computed with as they should be. A sync that does not match stops the run with ParityError: it
is better to have no run than one whose samples come from other weights than the ones being
trained.

A worker that dies during a sync is the fleet's business: it is replaced, and the
replacement gets the weights before it plays. One that answers the fleet but not the learners,
such as while Ray's control service hangs, is sent to again a few times. Anything else that goes
wrong in a transfer stops the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from actors.fleet.fleet import Fleet
from cluster.errors import LostError, ParityError, SyncError
from cluster.run.lasting_learners import LastingLearners
from cluster.run.parity import FEW, Scores, byte_faults, gap_between
from learners.group import WorkersUnreached
from learners.settings import SyncSettings

FAULTS_NAMED = 3  # in one message
TRIES = 3  # of one transfer

log = logging.getLogger("parley")


@dataclass(slots=True)
class SyncReport:
    version: int
    seconds: float
    tensors: int  # whose digests were compared, in every engine
    parity_gap: float  # of the last probe: float32 the largest of a log-prob, else the mean's share

    def metrics(self) -> dict[str, float]:
        return {
            "sync/seconds": self.seconds,
            "sync/tensors": self.tensors,
            "sync/parity_gap": self.parity_gap,
            "sync/version": self.version,
        }


class WeightSync:
    """`sequences` gives token ids of the policy's games, or before there are any, of how they begin."""

    def __init__(
        self,
        fleet: Fleet,
        learners: LastingLearners,
        settings: SyncSettings,
        *,
        sequences: Callable[[], list[list[int]]],
        half: bool,
    ):
        self.fleet, self.learners, self.settings = fleet, learners, settings
        self.sequences, self.half = sequences, half
        self.sent: dict[str, int] = {}  # digests of the last sync
        # of the last probe: what was scored, the trainer's scores, and the digests of its weights
        self.probed: tuple[list[list[int]], Scores, dict[str, int]] | None = None
        self.few = False  # tokens were in it: they were openings alone
        self.gap = 0.0

    def publish(self, version: int) -> SyncReport:
        """Give every engine the trainer's weights as `version`. Between the pause and the resume no token is made, but
        by vLLM during the probe, with the new weights. Workers that are still starting are not waited for: they get the
        weights when they join."""
        started = time.monotonic()
        due = self.probe_is_due(version)
        tries = 0
        self.fleet.pause()
        while workers := self.fleet.workers():
            before, done = self.fleet.gone, False
            try:
                sent = self.learners.send_weights(workers, version)
                self.compare(sent, version)
                done = self.probe(version, sent) if due else True
            except Exception as error:
                self.fleet.replace_lost()
                if self.fleet.gone == before:  # nobody died: the transfer itself is at fault
                    if isinstance(error, ParityError):
                        raise
                    failed, tries = f"weight sync to version {version} failed: {error}", tries + 1
                    if not isinstance(error, WorkersUnreached):
                        raise SyncError(failed) from error
                    if tries == TRIES:
                        raise LostError(f"{failed}, in {TRIES} tries") from error
                    log.warning("%s; the fleet finds every worker alive, so it is tried again", failed)
                    continue
            if done and self.fleet.gone == before:
                self.sent = sent
                break  # else again, with those that are left
        for worker in self.fleet.joining():
            self.fleet.joined(worker)
        self.fleet.resume()
        return SyncReport(version, time.monotonic() - started, len(self.sent), self.gap)

    def compare(self, sent: dict[str, int], version: int) -> None:
        for worker, receipt in self.fleet.receipts().items():
            if faults := byte_faults(sent, self.sent, receipt, version):
                named = "; ".join(f"{fault.tensor} {fault.what}" for fault in faults[:FAULTS_NAMED])
                more = f"; and {len(faults) - FAULTS_NAMED} more" if len(faults) > FAULTS_NAMED else ""
                raise ParityError(
                    f"weight sync to version {version} is wrong in rollout worker {worker}: {named}{more}"
                )

    def probe_is_due(self, version: int) -> bool:
        every = self.settings.probe_every
        if not self.settings.probe:
            return False
        first = self.probed is None or self.few
        return first or bool(self.fleet.joining()) or (every > 0 and version % every == 0)

    def probe(self, version: int, sent: dict[str, int]) -> bool:
        """What was scored at the last probe is scored again, beside something new, so that old
        and new weights can be told apart, if they are not the same. False if ranks were lost
        meanwhile, for whose start the engines were put to sleep."""
        known, old, weights = self.probed or ([], [], {})
        fresh = self.sequences()
        expected = self.learners.score(known + fresh)
        if self.learners.rested:
            return False
        worst = 0.0
        for worker, scores in self.fleet.score(known + fresh).items():
            gaps = [gap_between(expected[len(known) :], scores[len(known) :])]
            if known:
                gaps.append(gap_between(expected[: len(known)], scores[: len(known)], None if sent == weights else old))
            for gap in gaps:
                if fault := gap.fault(self.half, self.settings.tolerance):
                    raise ParityError(
                        f"weight sync to version {version} is wrong: rollout worker {worker} holds the weights sent, "
                        f"but {fault}: its engine computes another function of them than the trainer"
                    )
                worst = max(worst, gap.mean if self.half else gap.largest)
        self.probed, self.gap = (fresh, expected[len(known) :], sent), float(np.float64(worst))
        self.few = sum(map(len, fresh)) < FEW and not self.few  # once more, when there are games
        return True
