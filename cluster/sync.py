"""Weights from the learners to the engines, proved each time.

    pause every engine (requests stay) -> transfer -> probe -> resume

The probe scores fixed token ids with every engine and with the trainer's own forward
pass. A sync that does not match stops the run with ParityError: it is better to have no
run than one whose samples come from other weights than the ones being trained.

A worker that dies during a sync is the fleet's business: it is replaced, and the
replacement gets the weights before it plays. Anything else that goes wrong in a transfer
stops the run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from actors.fleet import Fleet
from cluster.errors import ParityError, SyncError
from learners.group import LearnerGroup
from learners.settings import SyncSettings

PROBE_SEQUENCES = 4
PROBE_TOKENS = 48
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.15, "float16": 0.15}


@dataclass(slots=True)
class SyncReport:
    version: int
    seconds: float
    parity_gap: float  # largest log-prob difference of the probe; 0 when the probe is off

    def metrics(self) -> dict[str, float]:
        return {"sync/seconds": self.seconds, "sync/parity_gap": self.parity_gap, "sync/version": self.version}


def probe_sequences(vocabulary: int, max_context: int, seed: int) -> list[list[int]]:
    """Random ids from the whole vocabulary, so that no row of the embedding or of the
    output head is out of the probe's reach for good."""
    rng = np.random.default_rng(seed)
    length = min(PROBE_TOKENS, max_context - 1)
    return rng.integers(0, vocabulary, size=(PROBE_SEQUENCES, length)).tolist()


def largest_gap(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """Largest absolute log-prob difference; infinite where one side is not a number."""
    gaps = [
        np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max() for a, b in zip(ours, theirs, strict=True)
    ]
    gap = max(gaps)
    return float(gap) if np.isfinite(gap) else float("inf")


class WeightSync:
    def __init__(
        self,
        fleet: Fleet,
        learners: LearnerGroup,
        settings: SyncSettings,
        *,
        vocabulary: int,
        max_context: int,
        dtype: str,
        seed: int,
    ):
        self.fleet, self.learners, self.settings = fleet, learners, settings
        self.vocabulary, self.max_context, self.seed = vocabulary, max_context, seed
        self.tolerance = settings.tolerance or TOLERANCE[dtype]

    def publish(self, version: int) -> SyncReport:
        """Give every engine the trainer's weights as `version`. Between the pause and the
        resume no token is made. Workers that are still starting are not waited for: they get
        the weights when they join."""
        started, gap = time.monotonic(), 0.0
        self.fleet.pause()
        while workers := self.fleet.workers():
            before = self.fleet.restarts
            try:
                self.learners.send_weights(workers, version)
                gap = self.probe(version)
            except Exception as error:
                self.fleet.replace_lost()
                if self.fleet.restarts == before:  # nobody died: the transfer itself is at fault
                    if isinstance(error, ParityError):
                        raise
                    raise SyncError(f"weight sync to version {version} failed: {error}") from error
            if self.fleet.restarts == before:
                break  # else again, with those that are left
        for worker in self.fleet.joining():
            self.fleet.joined(worker)
        self.fleet.resume()
        return SyncReport(version, time.monotonic() - started, gap)

    def probe(self, version: int) -> float:
        if not self.settings.probe:
            return 0.0
        sequences = probe_sequences(self.vocabulary, self.max_context, self.seed + version)
        expected = self.learners.score(sequences)
        worst = 0.0
        for worker, scores in enumerate(self.fleet.score(sequences)):
            gap = largest_gap(expected, scores)
            if gap > self.tolerance:
                raise ParityError(
                    f"weight sync to version {version} is wrong: rollout worker {worker} differs from the trainer by "
                    f"{gap:.2e} in log-prob (tolerance {self.tolerance:.0e}): its engine does not hold the weights sent"
                )
            worst = max(worst, gap)
        return worst
