"""Reward streams for tests: episodes of Parrot, shapers whose embedding is the same in every process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from envs.episode import Episode, Ticket, Turn
from reward_service.intentions.settings import IntentionSettings
from reward_service.service.journal import Journal
from reward_service.service.stream import RewardStream
from reward_service.settings import StreamSettings
from reward_service.shaper import ShapedRewards
from reward_service.shapers.aria import AriaShaper

WORDS = ("apple", "bread", "cloud", "drum", "eagle", "fern")
ROOM = 2**16  # bytes of a journal
SECONDS = 30.0  # longest wait for anything here


def episode(number: int, outcome: float | None = None, said: Sequence[str] = (), **changes) -> Episode:
    turns = said or [WORDS[(number + place) % 6] for place in range(3)]
    outcome = (number * 37 % 101) / 100 if outcome is None else outcome
    ticket = Ticket("run", changes.pop("game", "parrot"), number, number, (("parrot0", "policy"),))
    spoken = [Turn("parrot0", "policy", f"say {word}", word) for word in turns]
    return Episode(ticket, spoken, changes.pop("all", {"parrot0": outcome}), terminated=True)


def embed(texts: Sequence[str]) -> np.ndarray:
    """Unit rows that are the same in every process."""
    rows = np.stack(
        [np.frombuffer(blake2b(text.encode(), digest_size=32).digest(), np.uint8).astype(np.float32) for text in texts]
    )
    rows -= 127.5
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def aria(gives: str = "advantage", **changes) -> AriaShaper:
    return AriaShaper(IntentionSettings(**({"refit": "inline", "first_fit": 40} | changes)), embed, gives)


def answer(stream: RewardStream, *episodes: Episode, request: str = "") -> list[ShapedRewards]:
    return stream.submit(episodes, request).result(SECONDS)


def plain(values: Sequence[ShapedRewards]) -> list:
    return [(each.number, each.seat, each.rewards.tolist(), each.version, each.kind) for each in values]


def aggregates(shaper: AriaShaper) -> str:
    """Everything that later answers depend on; what was refused is only counted."""
    return json.dumps({name: value for name, value in shaper.state().items() if name != "refused"}, sort_keys=True)


def waits(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def opened(folder: Path, **changes) -> RewardStream:
    kept, register = StreamSettings(snapshot_episodes=changes.pop("snapshot", 25)), changes.pop("register", None)
    journal = Journal(folder, {"shaper": "aria"}, ROOM)
    return RewardStream(aria(**changes), kept, journal, **{"register": register} if register else {})
