"""Two processes, or as many as asked for, that host one learner after another, so that DeepSpeed starts
only once."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np

from cluster.record.metric_list import unlisted
from learners.group import environment
from learners.settings import LearnerSettings
from tests.support.learner_batches import MADE_UP

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc


class Peak:
    """The most memory of its own that this process has had while it was on, beyond what it had before."""

    def __enter__(self):
        self.before, self.most, self.over = own_memory(), 0, threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self):
        while not self.over.wait(0.001):
            self.most = max(self.most, own_memory())

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.bytes = max(self.most, own_memory()) - self.before


def own_memory() -> int:
    """Bytes; files that are mapped do not count."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


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
                from learners.transport.rendezvous import meeting_point

                return meeting_point()

            def call(self, method, *arguments):
                return getattr(self.rank, method)(*arguments)

            def read_all(self, trajectories):
                """Whatever the credit method needs of the model, as this rank knows it."""
                from learners.batch.packing import plan

                rank = self.rank
                mine = plan(trajectories, rank.settings.ranks, rank.settings.tokens_per_micro_batch)[rank.rank]
                return rank.learning.reader.read(trajectories, mine, mine)[0]

            def hidden(self, trajectories):
                """The states that the critic reads of this rank's share."""
                from learners.batch.packing import plan

                mine = plan(trajectories, self.rank.settings.ranks, 4096)[self.rank.rank]
                return [states.hidden for states in self.rank.learning.reader.read(trajectories, mine, mine)[1]]

            def turn_critics(self):
                """All that the critics of turns hold: weights, slow copies and what is replayed."""
                held = self.rank.learning.critic.state()
                kept = {(part, name): held[part][name] for part in ("nets", "slow", "replay") for name in held[part]}
                return {" ".join(name): tensor.cpu().numpy() for name, tensor in kept.items()}

            def mapped(self, name):
                """Whether this process has memory of that name mapped."""
                return name in Path("/proc/self/maps").read_text()

            def peak_of_loading(self, folder, sharded):
                """Bytes of memory of its own that this process comes to need for it, at the most."""
                import ctypes

                from learners.model.load import load_model

                libc = ctypes.CDLL("libc.so.6")
                for parameter in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
                    libc.mallopt(parameter, 2**16)  # what is freed is given back, so that it does not count
                settings = LearnerSettings(zero=3, dtype="bfloat16")
                gc.collect()
                libc.malloc_trim(0)  # nor is there what was freed before, to be used again
                with Peak() as peak:
                    model = load_model(folder, settings, 0, sharded=sharded)
                    held = sum(getattr(p, "ds_tensor", p).numel() for p in model.parameters())
                return peak.bytes, held

            def loaded_otherwise(self, folder):
                """Names of what is another tensor when the model is loaded in shards."""
                import deepspeed
                import torch

                from learners.model.load import load_model

                settings = LearnerSettings(zero=3, dtype="bfloat16")
                whole, sharded = (load_model(folder, settings, 0, sharded=each) for each in (False, True))
                found = []
                for parts in ("named_parameters", "named_buffers"):
                    for (name, mine), (_, theirs) in zip(
                        *(getattr(model, parts)() for model in (whole, sharded)), strict=True
                    ):
                        cut = [theirs] if hasattr(theirs, "ds_id") else []
                        with deepspeed.zero.GatheredParameters(cut):
                            if mine.dtype != theirs.dtype or not torch.equal(mine, theirs):
                                found.append(name)
                return found

            def hold_logits(self, most):
                from learners.model import slices

                slices.SLICE_LOGITS = most

            def elements(self):
                """Of the model, held by this rank itself."""
                return sum(p.numel() for p in self.rank.engine.module.parameters())

            def frozen_elements(self):
                """Of the reference."""
                return sum(p.numel() for p in self.rank.learning.reader.reference.frozen.parameters())

        self.ray, self.model = ray, model
        self.processes = [Process.remote() for _ in range(processes)]
        self.meet = ray.get(self.processes[0].meeting_point.remote(), timeout=120)

    def become(self, model: str | None = None, **changes) -> None:
        usual = MADE_UP | {"ranks": len(self.processes), "learning_rate": 1e-3, "tokens_per_micro_batch": 96}
        settings = LearnerSettings(**(usual | changes))
        arguments = {
            "settings": settings,
            "model_path": model or self.model,
            "temperature": 1.0,
            "seed": 0,
            "transport": "shared_memory",
        }
        calls = [p.make.remote(arguments | {"rank": rank}, self.meet) for rank, p in enumerate(self.processes)]
        self.ray.get(calls, timeout=180)

    def each(self, method: str, *arguments) -> list:
        found = self.ray.get([p.call.remote(method, *arguments) for p in self.processes], timeout=120)
        if method == "update":
            strangers = unlisted({f"learner/{name}" for figures in found for name in figures})
            assert not strangers, f"not in cluster/record/metric_list: {strangers}"
        return found

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

    def peak_of_loading(self, folder: str, sharded: bool) -> list[tuple[int, int]]:
        """Bytes at the most, and elements held afterwards, of each process."""
        return self.ray.get([p.peak_of_loading.remote(folder, sharded) for p in self.processes], timeout=120)

    def loaded_otherwise(self, folder: str) -> list[list[str]]:
        return self.ray.get([p.loaded_otherwise.remote(folder) for p in self.processes], timeout=120)

    def frozen_elements(self) -> int:
        return self.ray.get(self.processes[0].frozen_elements.remote(), timeout=60)

    def elements(self) -> int:
        return self.ray.get(self.processes[0].elements.remote(), timeout=60)


def distance(here: dict[str, np.ndarray], there: dict[str, np.ndarray]) -> float:
    assert here.keys() == there.keys()
    return float(np.sqrt(sum(np.square(here[name] - there[name], dtype=np.float64).sum() for name in here)))
