"""Requests of a reward stream: what waits, what was answered, what is kept of it, and why there is no answer."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from envs.episode import Episode
from reward_service.service.plain import PlainEpisode, episode_of
from reward_service.shaper import ShapedRewards


class StreamError(RuntimeError):
    """A request that gets no values; `reason` is a word for the counter."""

    reason = "failed"


class Busy(StreamError):
    """The queue is full. Nothing of the request was taken; try again after `retry_seconds`."""

    reason = "busy"

    def __init__(self, message: str, retry_seconds: float):
        super().__init__(message)
        self.retry_seconds = retry_seconds


class TooMany(StreamError):
    """More episodes than ever fit the queue."""

    reason = "too_many"


class OtherContent(StreamError):
    """The id of an earlier request, but not its episodes."""

    reason = "other_content"


class Stopped(StreamError):
    """The stream is closed, or cannot go on; the message says why."""

    reason = "stopped"


@dataclass(slots=True, eq=False)
class Request:
    id: str  # empty: has none
    digest: str  # of its episodes
    size: int  # episodes
    episodes: list[Episode] = field(default_factory=list)  # until it is answered; then only `future` is kept
    plain: list[dict[str, Any]] = field(default_factory=list)
    future: Future = field(default_factory=Future)
    kept: str = ""  # the answer, as it is written down
    arrived: float = field(default_factory=time.monotonic)


def episodes_of(requests: Sequence[Request]) -> list[Episode]:
    return [episode for request in requests for episode in request.episodes]


def request_of(request_id: str, episodes: list[Episode], plain: list[dict[str, Any]]) -> Request:
    digest = blake2b(json.dumps(plain).encode(), digest_size=16).hexdigest()
    return Request(request_id, digest, len(episodes), episodes, plain)


def read(plain: dict[str, Any]) -> Episode:
    return episode_of(PlainEpisode.model_validate(plain))


def shares_of(requests: Sequence[Request], rewards: Sequence[ShapedRewards]) -> list[list[ShapedRewards]]:
    """The values of each request, out of the values of all their episodes in turn."""
    given, shares = iter(rewards), []
    for request in requests:
        share = []
        for episode in request.episodes:
            for seat in episode.policy_seats():
                if not episode.turns_of(seat):
                    continue
                values = next(given, None)
                if values is None or (values.number, values.seat) != (episode.ticket.number, seat):
                    raise RuntimeError(f"the shaper left out seat {seat!r} of episode {episode.ticket.number}")
                share.append(values)
        shares.append(share)
    return shares


def kept(request: Request, values: Sequence[ShapedRewards]) -> str:
    plain = [
        [
            each.number,
            each.seat,
            each.rewards.tolist(),
            each.version,
            each.kind,
            *map(listed, (each.anchors, each.expected_advantages)),
        ]
        for each in values
    ]
    return json.dumps([request.id, request.digest, request.size, plain])


def answered(kept: str) -> Request:
    name, digest, size, plain = json.loads(kept)
    request = Request(name, digest, size, kept=kept)
    request.future.set_result([_read_back(*each) for each in plain])
    return request


def _read_back(
    number: int,
    seat: str,
    rewards: list[float],
    version: int,
    kind: str,
    anchors: list[int] | None = None,  # not in journals of before they were kept
    expected_advantages: list[float] | None = None,
) -> ShapedRewards:
    anchored = None if anchors is None else np.array(anchors, np.int64)
    expected = None if expected_advantages is None else np.array(expected_advantages, np.float32)
    return ShapedRewards(number, seat, np.array(rewards, np.float32), version, kind, anchored, expected)


def listed(values: np.ndarray | None) -> list | None:
    return None if values is None else values.tolist()
