"""Two processes, or as many as asked for, that host one learner after another, so that DeepSpeed starts
only once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from learners.group import environment
from learners.settings import LearnerSettings
from tests.learner_batches import MADE_UP


class Learners:
    """The processes as one: every call goes to all of them, the first one's answer counts."""

    def __init__(self, ray, model: str, processes: int = 2):
        @ray.remote(num_cpus=0, runtime_env={"env_vars": environment(LearnerSettings())})
        class Process:
            def make(self, arguments, meet):
                from learners.rank import LearnerRank

                self.rank = LearnerRank(**arguments)
                self.rank.start(*meet)

            def meeting_point(self):
                from learners.rendezvous import meeting_point

                return meeting_point()

            def call(self, method, *arguments):
                return getattr(self.rank, method)(*arguments)

            def read_all(self, trajectories):
                """Whatever the credit method needs of the model, as this rank knows it."""
                from learners.packing import plan

                rank = self.rank
                mine = plan(trajectories, rank.settings.ranks, rank.settings.tokens_per_micro_batch)[rank.rank]
                return rank.learning.reader.read(trajectories, mine)[0]

            def hidden(self, trajectories):
                """The states that the critic reads of this rank's share."""
                from learners.packing import plan

                mine = plan(trajectories, self.rank.settings.ranks, 4096)[self.rank.rank]
                return [states.hidden for states in self.rank.learning.reader.read(trajectories, mine)[1]]

            def turn_critics(self):
                """All that the critics of turns hold: weights, slow copies and what is replayed."""
                held = self.rank.learning.critic.state()
                kept = {(part, name): held[part][name] for part in ("nets", "slow", "replay") for name in held[part]}
                return {" ".join(name): tensor.cpu().numpy() for name, tensor in kept.items()}

            def mapped(self, name):
                """Whether this process has memory of that name mapped."""
                return name in Path("/proc/self/maps").read_text()

            def hold_logits(self, most):
                from learners import slices

                slices.SLICE_LOGITS = most

            def elements(self):
                """Of the model, held by this rank itself."""
                return sum(p.numel() for p in self.rank.engine.module.parameters())

        self.ray, self.model = ray, model
        self.processes = [Process.remote() for _ in range(processes)]
        self.meet = ray.get(self.processes[0].meeting_point.remote(), timeout=120)

    def become(self, **changes) -> None:
        usual = MADE_UP | {"ranks": len(self.processes), "learning_rate": 1e-3, "tokens_per_micro_batch": 96}
        settings = LearnerSettings(**(usual | changes))
        arguments = {
            "settings": settings,
            "model_path": self.model,
            "temperature": 1.0,
            "seed": 0,
            "transport": "shared_memory",
        }
        calls = [p.make.remote(arguments | {"rank": rank}, self.meet) for rank, p in enumerate(self.processes)]
        self.ray.get(calls, timeout=180)

    def each(self, method: str, *arguments) -> list:
        return self.ray.get([p.call.remote(method, *arguments) for p in self.processes], timeout=120)

    def call(self, method: str, *arguments):
        return self.each(method, *arguments)[0]

    def readings(self, trajectories) -> list[dict[str, np.ndarray]]:
        return self.ray.get([p.read_all.remote(trajectories) for p in self.processes], timeout=120)

    def hidden(self, trajectories) -> list:
        """Tensors, one for each rank."""
        found = self.ray.get([p.hidden.remote(trajectories) for p in self.processes], timeout=120)
        return [states for rank in found for states in rank]

    def turn_critics(self) -> list[dict[str, np.ndarray]]:
        return self.ray.get([p.turn_critics.remote() for p in self.processes], timeout=60)

    def hold_logits(self, most: int) -> None:
        """No rank holds more of them at a time from now on."""
        self.ray.get([p.hold_logits.remote(most) for p in self.processes], timeout=60)

    def elements(self) -> int:
        return self.ray.get(self.processes[0].elements.remote(), timeout=60)


def distance(here: dict[str, np.ndarray], there: dict[str, np.ndarray]) -> float:
    assert here.keys() == there.keys()
    return float(np.sqrt(sum(np.square(here[name] - there[name], dtype=np.float64).sum() for name in here)))
