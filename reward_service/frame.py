"""What shapers that keep a state have in common.

    shape(episodes)   -> intake: each read once, or refused by name -> answer(readings)
    refit, publish, restore, frozen, metrics                     one lock for all of them

A call of `shape` is all or nothing: a refused episode is counted, and changes nothing else. Saved and
restored is as never stopped.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from envs.episode import Episode, Identity
from reward_service.intentions.reading import EpisodeReading, EpisodeRefused, Reading, check, read
from reward_service.shaper import ShapedRewards

REMEMBERED_WINDOWS = 8  # an episode sent again within so many windows is known


class Intake:
    """`observations`: what is read of what a seat hears. `window`: episodes; one that is sent again within
    `REMEMBERED_WINDOWS` of them is refused. 0: any may come again."""

    def __init__(self, observations: str = "none", window: int = 0):
        self.observations, self.remembered = observations, REMEMBERED_WINDOWS * window
        self.known: dict[Identity, None] = {}
        self.refused: Counter[str] = Counter()

    def read(self, episodes: Sequence[Episode]) -> list[EpisodeReading]:
        """Refuses what is bad or was sent before."""
        coming: set[Identity] = set()
        for episode in episodes:
            try:
                check(episode)
                identity = episode.ticket.identity
                if self.remembered and (identity in self.known or identity in coming):
                    raise EpisodeRefused(episode, "sent_twice", "it was sent before")
                coming.add(identity)
            except EpisodeRefused as refused:
                self.refused[refused.reason] += 1
                raise
        return [EpisodeReading(each.ticket.identity, read(each, self.observations)) for each in episodes]

    def remember(self, readings: Iterable[EpisodeReading]) -> None:
        self.known |= dict.fromkeys(each.identity for each in readings)
        while len(self.known) > self.remembered:
            del self.known[next(iter(self.known))]

    def frozen(self) -> Callable[[], dict[str, Any]]:
        known, refused = list(self.known), dict(sorted(self.refused.items()))
        return lambda: {"known": [list(identity) for identity in known], "refused": refused}

    def restore(self, state: dict[str, Any]) -> None:
        self.known = {tuple(identity): None for identity in state["known"]}
        self.refused = Counter(state["refused"])


def locked(method: Callable) -> Callable:
    """A method of a shaper that holds its lock; such methods may call each other."""

    @wraps(method)
    def holding(self: Frame, *given: Any) -> Any:
        with self.lock:
            return method(self, *given)

    return holding


class Frame(ABC):
    """A shaper; by default one that is never refitted. `name`: its metrics stand under it."""

    name: str

    def __init__(self, lock: threading.RLock | None = None):
        self.lock = lock or threading.RLock()

    def refit(self) -> Callable[[], Any] | None:
        return None

    def publish(self, result: Any) -> None:
        raise RuntimeError(f"{type(self).__name__} is never refitted")

    saved = result_of = publish

    @locked
    def metrics(self) -> dict[str, float]:
        return {f"{self.name}/{name}": value for name, value in self.measured().items()}

    @abstractmethod
    def measured(self) -> dict[str, float]:
        """Under the lock."""

    @abstractmethod
    def frozen(self) -> Callable[[], dict[str, Any]]:
        """What it refers to does not change any more."""

    def state(self) -> dict[str, Any]:
        return self.frozen()()


class ReadingShaper(Frame):
    """A shaper that answers from readings."""

    def __init__(self, intake: Intake, lock: threading.RLock | None = None):
        super().__init__(lock)
        self.intake = intake

    def prepare(self, episode: Episode) -> None:
        self.embed_ahead(read(episode, self.intake.observations))

    @abstractmethod
    def embed_ahead(self, seats: Sequence[Reading]) -> None:
        """For the embedder to remember: the shaper itself learns of texts in ticket order. Not under the lock."""

    @locked
    def shape(self, episodes: Sequence[Episode]) -> list[ShapedRewards]:
        return self.answer(self.intake.read(episodes))

    @abstractmethod
    def answer(self, readings: Sequence[EpisodeReading]) -> list[ShapedRewards]:
        """Under the lock."""

    @locked
    def metrics(self) -> dict[str, float]:
        refused = {f"{self.name}/refused/{reason}": float(n) for reason, n in sorted(self.intake.refused.items())}
        return super().metrics() | refused
