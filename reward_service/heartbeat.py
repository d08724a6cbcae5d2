"""Signs of life of actors that are at work: a frozen one is noticed long before its work would be overdue.

watch = Watch(actors, silence_seconds)    each has a method `alive` in a concurrency group of its own
watch.silent()                            those that have not answered for longer; asked again and again
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import ray
from ray.actor import ActorHandle

SIGN_SECONDS = 5.0  # from one answer to the next question


class Watch:
    def __init__(self, actors: Sequence[ActorHandle], silence_seconds: float):
        self.actors, self.silence_seconds = list(actors), silence_seconds
        self.every = min(SIGN_SECONDS, silence_seconds / 4)
        self.looked = time.monotonic()
        self.due = dict.fromkeys(range(len(self.actors)), self.looked + self.every)  # actor -> its next question
        self.asked: dict[int, tuple[ray.ObjectRef, float]] = {}  # actor -> the open question, and when it was put

    def silent(self) -> list[int]:
        """Places of the actors that have been silent for too long. Time in which nobody looked does not count."""
        now = time.monotonic()
        missed = max(0.0, now - self.looked - self.every)
        self.looked = now
        for place, actor in enumerate(self.actors):
            if place in self.asked:
                call, since = self.asked[place]
                if ray.wait([call], timeout=0.0)[0]:
                    del self.asked[place]
                    self.due[place] = now + self.every
                else:
                    self.asked[place] = call, since + missed
            elif now >= self.due[place]:
                self.asked[place] = actor.alive.remote(), now
        return [place for place, (_, since) in self.asked.items() if now - since > self.silence_seconds]
