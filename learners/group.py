"""The learner ranks as one: places them, starts them, calls them together.

Each call goes to all ranks at once, because most of what they do is a collective. The
first rank that fails, dies, is silent or is late ends the call with one LearnerError; a group that
had one is broken where the ranks may be out of step: it is closed, or started anew. Every
wait has a limit from the settings. This module imports neither torch nor deepspeed.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, GetTimeoutError, OutOfMemoryError, RayActorError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from learners.batch.trajectories import Trajectory
from learners.settings import LearnerSettings
from learners.transport.client import WorkersLost
from learners.transport.rendezvous import meeting_point
from parley.light import without_sklearn
from reward_service.heartbeat import Watch
from reward_service.shaper import ShapedRewards

if TYPE_CHECKING:
    from learners.transport.proved import Digest

log = logging.getLogger("parley.learners")

COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Ray writes tracebacks for a terminal
MESSAGE = 300  # characters of a cause
LOOK_SECONDS = 1.0  # from one look at the ranks to the next
GONE_SECONDS = 10.0  # for a sign of life of each rank, after one of them failed
SEEN_SECONDS = 30.0  # for a file of one node to be there on another, on storage that both share
# Each pass of a rank on CPUs frees all that it took, and glibc would give it back and get it again page by page.
# Tensors of more than 32 MiB go back at once as ever.
KEPT = ":".join(f"glibc.malloc.{name}" for name in ("hugetlb=1", f"mmap_threshold={2**25}", f"trim_threshold={2**28}"))
GRACE_SECONDS = 15.0  # a rank reports its own time limit before the group reports the rank's


class LearnerError(RuntimeError):
    """The learner cannot go on; the message says which rank, at what, and why."""


class LearnerLost(LearnerError):
    """A rank died, is silent, or is late."""


class WorkersUnreached(LearnerError):
    """The learners are well, but some rollout workers died in a transfer, or did not answer them."""


@ray.remote(max_restarts=0, max_concurrency=1, concurrency_groups={"alive": 1})
class RankActor:
    """One process for one rank; loads torch and DeepSpeed where it runs."""

    def __init__(self, arguments: dict[str, Any]):
        without_sklearn()
        from learners.rank import LearnerRank

        self.rank = LearnerRank(**arguments)
        self.shares_card = 0 < (arguments["settings"].gpus_per_rank or 0) < 1

    def __repr__(self) -> str:
        return f"learner rank {self.rank.rank}"

    def meeting_point(self) -> tuple[str, int]:
        return meeting_point()

    def process(self) -> int:
        return os.getpid()

    @ray.method(concurrency_group="alive")
    def alive(self) -> None:
        """Answers while `call` is at work."""

    def sees(self, file: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not (there := os.path.exists(file)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return there

    def call(self, method: str, *arguments: Any) -> Any:
        result = getattr(self.rank, method)(*arguments)
        if self.shares_card:  # what torch holds without using it is the engine's
            import torch

            torch.cuda.empty_cache()
        return result if self.rank.rank == 0 else None


class LearnerGroup:
    def __init__(
        self,
        settings: LearnerSettings,
        model_path: str,
        temperature: float,
        seed: int,
        name: str,
        *,
        transport: str | None = None,
        ranks_per_worker: int = 1,
        revision: str | None = None,
        trust_remote_code: bool = False,
        digest: Digest | None = None,
        places: Sequence[PlacementGroupSchedulingStrategy] | None = None,
    ):
        """`transport` instead of `settings.sync.transport`; `ranks_per_worker` is the number of processes
        of one engine (NCCL needs to know). `digest` is what the engines take of each tensor too.
        `places`: each rank's, where somebody else has made them and will give them back."""
        self.settings, self.name = settings, name
        self.transport = transport
        self.arguments = {
            "settings": settings,
            "model_path": str(model_path),
            "temperature": temperature,
            "seed": seed,
            "ranks_per_worker": ranks_per_worker,
            "revision": revision,
            "trust_remote_code": trust_remote_code,
            "digest": digest,
        }
        self.actors: list[ActorHandle] = []
        self.given = self.places = places
        self.placement: PlacementGroup | None = None  # made here
        self.starts = 0
        self.joined = False  # all ranks are up

    def place(self) -> None:
        """Make room for the ranks, on as few nodes as can be. `start` does it where it was not done before."""
        try:
            self._place(time.monotonic() + self.settings.start_seconds)
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """All ranks up and joined, or an error that says what is missing."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def restart(self) -> None:
        """All ranks anew, in the place that they had: whoever waits for room does not get it meanwhile."""
        self._end()
        self._start()

    def _start(self) -> None:
        deadline = time.monotonic() + self.settings.start_seconds
        if self.given is None:
            self._place(deadline)
        transport = self.transport or self.settings.sync.transport
        self.starts += 1
        for rank in range(self.settings.ranks):
            self.actors.append(self._rank(self.places[rank], self.arguments | {"rank": rank, "transport": transport}))
        meet = self._gather("start", [self.actors[0].meeting_point.remote()], deadline - time.monotonic())[0]
        self._all("start", deadline - time.monotonic(), *meet)
        self.joined = True

    def _place(self, deadline: float) -> None:
        """A place that is there is kept; Ray moves it where its node is gone."""
        settings = self.settings
        if self.placement is None:
            self.placement = self._new_placement()
        if not self.placement.wait(max(0.0, deadline - time.monotonic())):
            free = ray.available_resources()
            raise LearnerError(
                f"no room for {settings.ranks} learner ranks of {self._bundle()} within learner.start_seconds="
                f"{settings.start_seconds:g}: {free.get('CPU', 0.0):g} CPUs and {free.get('GPU', 0.0):g} GPUs are free"
            )
        self.places = [PlacementGroupSchedulingStrategy(self.placement, rank) for rank in range(settings.ranks)]

    def _bundle(self) -> dict[str, float]:
        """Ray takes no empty bundle; a rank that reserves nothing still has a place."""
        settings = self.settings
        gpus = {"GPU": settings.gpus_per_rank} if settings.gpus_per_rank else {}
        return {"CPU": settings.cpus_per_rank or 0.001} | gpus

    def _new_placement(self) -> PlacementGroup:
        settings, have = self.settings, ray.cluster_resources()
        for kind, each in (("CPU", settings.cpus_per_rank), ("GPU", settings.gpus_per_rank or 0.0)):
            if each * settings.ranks > have.get(kind, 0.0):
                raise LearnerError(
                    f"learner.ranks={settings.ranks} with learner.{kind.lower()}s_per_rank={each:g} needs "
                    f"{each * settings.ranks:g} {kind}s, but the cluster has {have.get(kind, 0.0):g}"
                )
        return placement_group([self._bundle()] * settings.ranks, strategy="PACK")

    def _rank(self, place: PlacementGroupSchedulingStrategy, arguments: dict[str, Any]) -> ActorHandle:
        settings = self.settings
        again = f"-r{self.starts - 1}" if self.starts > 1 else ""
        name = f"parley-{self.name}-learner-{arguments['rank']}{again}"
        try:
            return RankActor.options(
                name=name,
                num_cpus=settings.cpus_per_rank or 0.001,
                num_gpus=settings.gpus_per_rank or 0.0,
                scheduling_strategy=place,
                runtime_env={"env_vars": environment(settings)},
            ).remote(arguments)
        except ValueError as error:  # Ray's word for a name that is taken
            raise LearnerError(f"an actor named {name} runs already: is a run of this name still going?") from error

    def update(
        self,
        episodes: Sequence[Any],
        rewards: Sequence[ShapedRewards],
        meanwhile: Callable[[], None] | None = None,
    ) -> dict[str, float]:
        """One update on a batch: episodes (or references to them or to lists of them) and the
        rewards of all their policy seats. Returns the metrics. `meanwhile` is called again and
        again until the ranks are done; how often they are looked at is up to it."""
        arguments = list(episodes), ray.put(list(rewards))
        return self._all("update", self.settings.update_seconds, *arguments, meanwhile=meanwhile)

    def update_on(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """One update on games that are given as trajectories; returns the metrics."""
        return self._all("update_on", self.settings.update_seconds, ray.put(list(trajectories)))

    def send_weights(self, workers: Sequence[ActorHandle], version: int) -> dict[str, int]:
        """All workers get the weights as `version`; returns the digest of each tensor sent. After
        an error the same or other workers may be sent to again."""
        return self._all("send_weights", self.settings.sync.timeout_seconds, list(workers), version)

    def score(self, sequences: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Log-prob at temperature 1 of each token after the first, by the weights that would
        be sent now."""
        return self._all("score", self.settings.sync.timeout_seconds, list(sequences))

    def advantages(self) -> dict[tuple[int, str], np.ndarray]:
        """Of the last update, by episode number and seat: one for each trained token."""
        names, sizes, advantages = self._all("advantages", self.settings.sync.timeout_seconds)
        return dict(zip(names, np.split(advantages, np.cumsum(sizes)[:-1]), strict=True))

    def adopt(self, version: int) -> None:
        """The weights held now are those that the engines know as `version`, though these ranks did not send them."""
        self._all("adopt", self.settings.sync.timeout_seconds, version)

    def blind_to(self, file: Path, seconds: float = SEEN_SECONDS) -> list[int]:
        """The ranks that do not see a file."""
        calls = [actor.sees.remote(str(file.absolute()), seconds) for actor in self.actors]
        found = self._gather("sees", calls, seconds + self.settings.sync.timeout_seconds)
        return [rank for rank, sees in enumerate(found) if not sees]

    def save(self, folder: str | Path) -> None:
        """Everything that a restart needs, in a folder that all ranks see."""
        self._all("save", self.settings.update_seconds, str(Path(folder).absolute()))

    def load(self, folder: str | Path) -> None:
        self._all("load", self.settings.update_seconds, str(Path(folder).absolute()))

    def export(self, folder: str | Path) -> None:
        """The policy in Hugging Face format, or its adapter in PEFT format, with the tokenizer."""
        self._all("export", self.settings.update_seconds, str(Path(folder).absolute()))

    def parameters(self) -> dict[str, np.ndarray]:
        """The trained weights, whole, as float32."""
        return self._all("parameters", self.settings.sync.timeout_seconds)

    def close(self) -> None:
        """End all ranks and give their place back. May be called at any time, and twice."""
        self._end()
        if self.placement is not None:
            remove_placement_group(self.placement)
            self.placement = None
        self.places = self.given

    def _end(self) -> None:
        actors, self.actors = self.actors, []
        joined, self.joined = self.joined, False
        if actors and joined:  # ranks that still start could not answer
            farewell = [actor.call.remote("close") for actor in actors]
            ray.wait(farewell, num_returns=len(farewell), timeout=5.0)
        for actor in actors:
            ray.kill(actor)

    def _all(self, method: str, seconds: float, *arguments: Any, meanwhile: Callable[[], None] | None = None) -> Any:
        """Call a method on every rank; the first rank's answer."""
        if not self.actors:
            raise LearnerError(f"learner {method}: the learner group is not running")
        named = f"learner.{method}"  # in Ray's list of tasks: what a rank is doing
        calls = [actor.call.options(name=named).remote(method, *arguments) for actor in self.actors]
        return self._gather(method, calls, seconds, meanwhile)[0]

    def _gather(
        self,
        method: str,
        calls: list[ray.ObjectRef],
        seconds: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        deadline = time.monotonic() + max(0.0, seconds) + GRACE_SECONDS
        pending, results = list(calls), {}
        watch = Watch(self.actors, self.settings.silence_seconds)
        while pending:
            left = max(0.0, deadline - time.monotonic())
            ready, pending = ray.wait(pending, num_returns=1, timeout=0.0 if meanwhile else min(left, LOOK_SECONDS))
            if not ready and left:
                if method != "start" and (silent := watch.silent()):  # imports and loading may keep a process busy
                    raise LearnerLost(
                        f"learner {method}: rank {', '.join(map(str, silent))} has given no sign of life for "
                        f"learner.silence_seconds={self.settings.silence_seconds:g}"
                    )
                if meanwhile:
                    meanwhile()
                continue
            if not ready:
                late = ", ".join(str(calls.index(call)) for call in pending)
                raise LearnerLost(f"learner {method}: no answer from rank {late} within {seconds:.0f} s")
            rank = calls.index(ready[0])
            try:
                results[rank] = ray.get(ready[0])
            except RayTaskError as error:
                if gone := self._gone():
                    raise LearnerLost(f"learner {method}: rank {gone[0]} died") from error
                log.error("learner %s, rank %d, where it failed:\n%s", method, rank, COLOUR.sub("", str(error)))
                cause = error.cause or error
                reason = str(cause) if isinstance(cause, ValueError) else f"{type(cause).__name__}: {cause}"
                kind = WorkersUnreached if isinstance(cause, WorkersLost) else LearnerError
                raise kind(f"learner {method}, rank {rank}: {reason}") from error
            except (RayActorError, OutOfMemoryError) as error:
                raise LearnerLost(f"learner {method}: rank {rank} {_death(error)}") from error
        return [results[rank] for rank in range(len(calls))]

    def _gone(self) -> list[int]:
        """Ranks that are no longer there. When one dies, the others fail at what they do together, perhaps before its
        death is known."""
        calls = [actor.alive.remote() for actor in self.actors]
        ray.wait(calls, num_returns=len(calls), timeout=GONE_SECONDS)
        found = []
        for rank, call in enumerate(calls):
            try:
                ray.get(call, timeout=0.0)
            except (RayActorError, OutOfMemoryError, GetTimeoutError):
                found.append(rank)
        return found


def _death(error: RayActorError | OutOfMemoryError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    what = "died" if isinstance(error, ActorDiedError | OutOfMemoryError) else "cannot be reached"
    return f"{what} ({lines[-1][:MESSAGE]})" if lines else what


def environment(settings: LearnerSettings) -> dict[str, str]:
    """Of a rank's process. Ray does not hide GPUs from a process that asked for none."""
    variables = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "TOKENIZERS_PARALLELISM": "false",
    }
    if settings.gpus_per_rank:
        # DeepSpeed asks, when it is imported, for the toolkit of ops that nobody uses
        return variables | {"DS_ACCELERATOR": "cuda", "DS_IGNORE_CUDA_DETECTION": "1"}
    return variables | {
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": str(settings.threads_on_cpu),
        "CUDA_VISIBLE_DEVICES": "",
        "GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", KEPT),
    }
