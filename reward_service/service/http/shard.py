"""One part of the service: a reward stream in a named actor, with a state folder of its own.

    ray.get_actor("parley-rewards-0", namespace="parley").rewards.remote(episodes, "request 17")

All episodes of a game go to one shard, so that turns that share credit are never apart. If its
process dies Ray starts another, which goes on from the folder; what was not answered is asked again by
its caller.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import ray

from envs.episode import Episode, Ticket, Turn
from envs.settings import GameSettings
from reward_service.intentions.reading import EpisodeRefused
from reward_service.service.errors import Refusal
from reward_service.service.http.dialogue import register
from reward_service.service.journal import Journal
from reward_service.service.requests import Busy, Stopped, StreamError
from reward_service.service.stream import RewardStream
from reward_service.settings import RewardSettings
from reward_service.shaper import SHAPERS, ShapedRewards, Shaper, ShaperSettings
from reward_service.threads import freeze_garbage_collector

NAMESPACE = "parley"
WARM_UP = Episode(
    Ticket("warm-up", "parrot", 0, 0, (("parrot0", "policy"),)),
    [Turn("parrot0", "policy", "say apple", "apple")],
    {"parrot0": 1.0},
    terminated=True,
)
RESTART_SECONDS = 1.0  # after which a stopped shard may be asked again


def shard_name(number: int) -> str:
    return f"parley-rewards-{number}"


def shard_of(game: str, shards: int) -> int:
    return crc32(game.encode()) % shards


def owner_of(settings: RewardSettings, number: int) -> dict[str, Any]:
    """What a shard's folder is kept under: other settings of the shaper would make other values of it."""
    shaper = {f"reward.shaper.{key}": value for key, value in settings.shaper.what_is_computed().items()}
    return {"shaper": SHAPERS.name_of(settings.shaper), "shard": number, "shards": settings.http.shards} | shaper


def able(settings: ShaperSettings, game: GameSettings) -> Shaper:
    """A shaper that can answer: another one was asked to. What it embeds with is loaded."""
    settings.make(game).shape([WARM_UP])
    shaper = settings.make(game)
    shaper.prepare(WARM_UP)
    return shaper


@ray.remote(max_restarts=-1, max_task_retries=0, max_concurrency=1000)
class RewardShard:
    def __init__(self, settings: RewardSettings, game: GameSettings, number: int):
        logging.getLogger("parley").setLevel(logging.INFO)
        self.limit = settings.http.answer_seconds
        register(settings.http.games)
        shaper = able(settings.shaper, game)
        journal = Journal(Path(settings.http.state).expanduser() / f"shard-{number}", owner_of(settings, number))
        self.stream = RewardStream(shaper, settings.http.stream, journal, register)
        freeze_garbage_collector()
        self.answered: Counter[str] = Counter()  # errors over HTTP, by kind

    async def rewards(self, episodes: list[Episode], request_id: str = "") -> list[ShapedRewards] | Refusal:
        """Of each episode in turn, one for each policy seat that spoke. May be called from many places."""
        try:
            future = asyncio.wrap_future(self.stream.submit(episodes, request_id))
            done, _ = await asyncio.wait([future], timeout=self.limit)
            if not done:
                return Refusal("late", f"no answer within {self.limit:g} s", RESTART_SECONDS)
            return future.result()
        except Busy as error:
            return Refusal(error.reason, str(error), error.retry_seconds)
        except Stopped as error:
            return Refusal(error.reason, str(error), RESTART_SECONDS)
        except (EpisodeRefused, StreamError) as error:
            return Refusal(error.reason, str(error))

    async def health(self) -> dict[str, Any]:
        version = int(getattr(self.stream.shaper, "version", 0))
        return {"version": version, "stopped": self.stream.stopped, "process": os.getpid()}

    async def count(self, kind: str) -> None:
        self.answered[kind] += 1

    async def metrics(self) -> dict[str, float]:
        answered = {f"http/{kind}": float(count) for kind, count in sorted(self.answered.items())}
        return answered | await asyncio.to_thread(self.stream.metrics)  # which waits while a micro-batch is shaped

    async def state(self) -> dict[str, Any]:
        """Of the shaper, as a checkpoint would hold it."""
        return await asyncio.to_thread(self.stream.shaper.state)

    async def close(self) -> None:
        await asyncio.to_thread(self.stream.close)
