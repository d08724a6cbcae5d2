"""The desk in an actor of its own, and the driver's side of it.

    fleet --episode ref--> receive      fire and forget: the actor prepares while play goes on
    loop  --batch, names--> shape       most of the work is done by then

If the actor dies or is silent, a new one takes the state of the last checkpoint and shapes the batches
since again, from references that are kept for that; then it answers. Each batch is in the
state exactly once, before and after.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import ray
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayActorError, RayTaskError

from envs.episode import Episode
from envs.memory import Spare
from envs.settings import GameSettings, keys_of
from reward_service.desk import Name, RewardDesk
from reward_service.heartbeat import Watch
from reward_service.settings import RewardSettings
from reward_service.shaper import ShapedRewards
from reward_service.threads import freeze_garbage_collector

log = logging.getLogger("parley.rewards")
LOOK_SECONDS = 1.0  # from one look at the actor to the next
ARRIVAL_SECONDS = 1.0  # how long episodes that were sent ahead may still be on their way
SUPPLY_SECONDS = 120.0  # for episodes that the object store holds
CALL_SECONDS = 120.0  # for a state to be handed over or taken in, and the like


class RewardError(RuntimeError):
    """Rewards cannot be made; the message says why."""


@ray.remote(max_restarts=0, concurrency_groups={"receive": 1, "shape": 1, "alive": 1})
class RewardActor:
    def __init__(self, settings: RewardSettings, game: GameSettings, steady: bool):
        self.desk = RewardDesk(settings.shaper.make(game), steady=steady, refit_seconds=settings.refit_seconds)
        self.frozen, self.spare = False, Spare()

    def __repr__(self) -> str:
        return "reward service"

    @ray.method(concurrency_group="receive")
    def receive(self, *episodes: Episode) -> None:
        for episode in episodes:
            self.desk.receive(episode)
        if not self.frozen:  # not before: the first episodes load what the shaper embeds with
            freeze_garbage_collector()
            self.frozen = True

    @ray.method(concurrency_group="shape")
    def shape(self, batch: int, names: list[Name]) -> list[ShapedRewards] | list[int]:
        """The rewards, or the places of episodes that have to be supplied first."""
        self.spare.look(time.monotonic())
        return self.desk.missing(names, ARRIVAL_SECONDS) or self.desk.shape(batch, names)

    @ray.method(concurrency_group="alive")
    def alive(self) -> None:
        """Answers while the others work."""

    @ray.method(concurrency_group="shape")
    def supply(self, references: list[ray.ObjectRef]) -> None:
        for episode in ray.get(references, timeout=SUPPLY_SECONDS):
            self.desk.receive(episode)

    @ray.method(concurrency_group="shape")
    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self.desk, method)(*arguments)


class Silent(Exception):
    """The actor is there, and does not answer."""


LOST = RayActorError, OutOfMemoryError, Silent  # another actor may do it


@contextmanager
def told(what: str) -> Iterator[None]:
    """What no other actor could do better is a RewardError."""
    try:
        yield
    except RayTaskError as error:
        raise RewardError(f"the reward service failed at {what}: {error.cause or error}") from error
    except GetTimeoutError:
        raise RewardError(f"the reward service did not answer in time for {what}") from None


class Asked(NamedTuple):
    """A batch that was asked for."""

    batch: int
    names: list[Name]  # of its episodes
    references: list[ray.ObjectRef]


class RewardService:
    def __init__(self, settings: RewardSettings, game: GameSettings, name: str, *, steady: bool):
        self.settings, self.game, self.name, self.steady = settings, game, name, steady
        self.refit_seconds = settings.refit_seconds if steady else 0.0  # that an answer may wait for a refit, besides
        self.saved: dict[str, Any] | None = None  # the last checkpoint's state
        self.since: list[Asked] = []  # batches shaped after it
        self.last: int | None = None  # batch shaped
        self.restarts = 0
        self.actor = self._start()

    def _start(self) -> ActorHandle:
        name = f"parley-{self.name}-rewards" + (f"-r{self.restarts}" if self.restarts else "")
        options: dict[str, Any] = {"name": name, "num_cpus": self.settings.cpus}
        if keys := keys_of(self.settings, self.game):
            options["runtime_env"] = {"env_vars": keys}
        return RewardActor.options(**options).remote(self.settings, self.game, self.steady)

    def receive(self, references: Sequence[ray.ObjectRef]) -> None:
        """Episodes may be sent twice or never: this is only a head start."""
        self.actor.receive.remote(*references)

    def shape(self, batch: int, names: Sequence[Name], references: Sequence[ray.ObjectRef]) -> list[ShapedRewards]:
        """The rewards of a complete batch, given in ticket order."""
        asked = Asked(batch, list(names), list(references))
        rewards = self._surviving(lambda actor: self._shape(actor, asked), f"batch {batch}")
        if batch != self.last:
            self.last = batch
            self.since.append(asked)
        return rewards

    def _shape(self, actor: ActorHandle, asked: Asked) -> list[ShapedRewards]:
        limit = self.settings.batch_seconds + self.refit_seconds
        answer = self._answer(actor, actor.shape.remote(asked.batch, asked.names), limit)
        if answer and isinstance(answer[0], int):
            self._answer(actor, actor.supply.remote([asked.references[place] for place in answer]), limit)
            answer = self._answer(actor, actor.shape.remote(asked.batch, asked.names), limit)
        return answer

    def _call(self, actor: ActorHandle, method: str, *arguments: Any) -> Any:
        call = actor.call.options(name=f"rewards.{method}")  # in Ray's list of tasks: what it is doing
        limit = CALL_SECONDS + (self.refit_seconds if method == "state" else 0.0)
        return self._answer(actor, call.remote(method, *arguments), limit)

    def _answer(self, actor: ActorHandle, call: ray.ObjectRef, seconds: float) -> Any:
        watch, deadline = Watch([actor], self.settings.silence_seconds), time.monotonic() + seconds
        while not ray.wait([call], timeout=min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))[0]:
            if watch.silent():
                raise Silent(f"no sign of life for reward.silence_seconds={self.settings.silence_seconds:g}")
            if time.monotonic() > deadline:
                break
        return ray.get(call, timeout=0.0)

    def metrics(self) -> dict[str, float]:
        found = self._surviving(lambda actor: self._call(actor, "metrics"), "metrics")
        return {**found, "reward/restarts": float(self.restarts)}

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds. From here on a restart begins at this state."""
        self.saved = self._surviving(lambda actor: self._call(actor, "state"), "its state")
        self.since = []
        return self.saved

    def restore(self, state: dict[str, Any]) -> None:
        self.saved, self.since, self.last = state, [], None
        self._surviving(lambda actor: self._call(actor, "restore", state), "a restored state")

    def _surviving(self, ask: Callable[[ActorHandle], Any], what: str) -> Any:
        """The answer, by this actor or by one that replaces it."""
        while True:
            try:
                with told(what):
                    return ask(self.actor)
            except LOST as error:
                self._replace(error)

    def _replace(self, error: Exception) -> None:
        """Start another, which catches up. One that dies while it does counts as lost too."""
        while True:
            log.warning("the reward service is lost: %s", str(error).strip().splitlines()[0])
            self.restarts += 1
            if self.restarts > self.settings.max_restarts:
                raise RewardError(
                    f"the reward service died {self.restarts} times (reward.max_restarts={self.settings.max_restarts})"
                ) from error
            ray.kill(self.actor)
            self.actor = self._start()
            try:
                with told("what came before it was replaced"):
                    if self.saved is not None:
                        self._call(self.actor, "restore", self.saved)
                    for asked in self.since:
                        self._shape(self.actor, asked)
                return
            except LOST as again:
                error = again

    def close(self) -> None:
        ray.kill(self.actor)
