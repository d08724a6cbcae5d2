"""What became of a ticket, on the driver's side."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import ray

from actors.worker import Summary
from envs.episode import Episode, Ticket


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of a ticket: an episode's reference and summary, or a reason."""

    ticket: Ticket
    ref: ray.ObjectRef[Episode] | None
    reason: str | None
    summary: Summary | None
    tokens: int = 0  # sampled for it by the policy, as far as its worker lived to tell
    node: str | None = None  # that a large episode lies on, and goes with
    worker: int | None = None  # that had it last
    what: str = ""  # was raised, where `reason` is a game's own
    ended: float = field(default_factory=time.time, compare=False)  # in seconds of Unix time
