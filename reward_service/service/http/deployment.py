"""The service on a Ray cluster: named shard actors, and Ray Serve in front of them.

    HTTP proxy (Ray Serve) -> ingress (checks, JSON) -> shard of the game (named actor)

Whoever starts it ends it: `close` lets each shard finish what it has taken and write it down. If it
is killed instead, the folder is what the next start goes on from.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import httpx
import ray
from ray import serve
from ray.serve.exceptions import RayServeException

from envs.settings import GameSettings
from reward_service.service.http.app import make_app
from reward_service.service.http.shard import NAMESPACE, RewardShard, shard_name
from reward_service.settings import HttpSettings, RewardSettings

APPLICATION = "parley-rewards"
CLOSE_SECONDS = 90.0  # for a shard to write down what it has taken
CONCURRENT = 1000  # requests in one ingress; what waits longer is bounded by the shards' queues
POLL_SECONDS = 0.2
SERVES_PATIENCE = "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"  # read by the Ray that is started: 5 s, then it is killed


class ServiceError(RuntimeError):
    """The service cannot be started; the message says why."""


@serve.deployment(name="ingress", max_ongoing_requests=CONCURRENT, ray_actor_options={"num_cpus": 0})
@serve.ingress()
class Ingress:
    def __init__(self, shards: list[Any], settings: HttpSettings, key: str | None):
        self.made_of = shards, settings, key

    def __serve_build_asgi_app__(self):
        return make_app(*self.made_of)


class DeployedService:
    """Runs on the Ray that this process has joined. `key` None: anybody may call it."""

    def __init__(self, settings: RewardSettings, game: GameSettings, key: str | None):
        self.settings, self.game, self.key = settings, game, key
        self.shards: list[Any] = []

    @property
    def address(self) -> str:
        host = self.settings.http.host
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{self.settings.http.port}"

    @property
    def _seconds(self) -> str:
        return f"{self.settings.http.start_seconds:g} s (reward.http.start_seconds)"

    def start(self) -> None:
        """Returns when every shard is ready and the address answers."""
        http = self.settings.http
        deadline = time.monotonic() + http.start_seconds
        try:
            for number in range(http.shards):
                options = {"name": shard_name(number), "namespace": NAMESPACE, "num_cpus": self.settings.cpus}
                self.shards.append(RewardShard.options(**options).remote(self.settings, self.game, number))
            for shard in self.shards:
                self._ready(shard, deadline)
            self._serve(deadline)
            self._answers(deadline)
        except BaseException:
            self.close()
            raise

    def _ready(self, shard: Any, deadline: float) -> None:
        try:
            ray.get(shard.health.remote(), timeout=max(deadline - time.monotonic(), 0))
        except ray.exceptions.GetTimeoutError:
            raise ServiceError(f"a shard was not ready within {self._seconds}") from None
        except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError) as error:
            raise ServiceError(f"a shard cannot be started: {last_line(error)}") from error

    def _serve(self, deadline: float) -> None:
        """Ray Serve kills a proxy that is slow to start, and starts another one: on a busy machine several times."""
        http = self.settings.http
        ingress = Ingress.options(num_replicas=http.ingresses).bind(self.shards, http, self.key)
        while True:
            try:
                serve.start(http_options={"host": http.host, "port": http.port, "num_cpus": 0})
                serve.run(ingress, name=APPLICATION, route_prefix="/")
                return
            except (ray.exceptions.RayActorError, TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise ServiceError(
                        f"Ray Serve's HTTP proxy was not ready within {self._seconds}: give the machine more CPU, or "
                        f"set it higher ({last_line(error)})"
                    ) from error
                time.sleep(POLL_SECONDS)
            except ray.exceptions.RayTaskError as error:  # its port is taken, for instance
                raise ServiceError(f"Ray Serve cannot start: {last_line(error)}") from error

    def _answers(self, deadline: float) -> None:
        """Serve may have been running already, elsewhere."""
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.address}/health", timeout=5.0).status_code == 200:
                    return
            time.sleep(POLL_SECONDS)
        raise ServiceError(
            f"{self.address} does not answer within {self._seconds}: is Ray Serve of this cluster "
            "at another address, or the machine too busy?"
        )

    def close(self) -> None:
        with suppress(ray.exceptions.RayError, RayServeException, RuntimeError):  # Serve may not have begun
            serve.delete(APPLICATION)
        for shard in self.shards:
            with suppress(ray.exceptions.RayError):
                ray.get(shard.close.remote(), timeout=CLOSE_SECONDS)
            ray.kill(shard)
        self.shards = []


def last_line(error: BaseException) -> str:
    """What an actor's constructor died of, without the traceback that Ray puts before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
