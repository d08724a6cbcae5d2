"""One DeepSpeed rank: a plain class, wrapped in an actor by learners.group.

It joins the other ranks, holds the model under ZeRO, takes batches in, sends weights out and
keeps checkpoints. All ranks run the same collectives in the same order, also when one of them
fails at something of its own. What an update does is in `learning`. `version` is that of the
weights held here, as the engines know it; None between an update and the next sync, when no
engine has them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deepspeed
import numpy as np
import ray
import torch
import torch.distributed as dist
import transformers
from transformers import AutoTokenizer

from envs.episode import Episode
from envs.memory import Spare
from learners.batch.packing import fill, pack_sequences
from learners.batch.trajectories import Trajectory, batch_of, collect
from learners.credit.method import CREDIT
from learners.model.checkpoint_form import kept_buffers
from learners.model.folder import make_readable
from learners.model.load import fingerprint, load_model, pack_logprobs, write_adapter
from learners.model.reference import Reference, reads_base
from learners.optimiser import deepspeed_config, make_optimiser
from learners.settings import LearnerSettings
from learners.update import checkpoint
from learners.update.learning import Learning, make_critic
from parley.light import without_inductor
from reward_service.shaper import ShapedRewards

if TYPE_CHECKING:
    from learners.transport.proved import Digest

STEP_THREADS = 16  # of a rank on a card whose optimiser is offloaded: with more its steps wait for memory


def add_in_one_order() -> None:
    """On CPUs: threads that add to one place, as the gradient of an index does, would do so in any order, and a run
    would not have the same bytes again."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False


class LearnerRank:
    def __init__(
        self,
        settings: LearnerSettings,
        model_path: str,
        temperature: float,
        seed: int,
        rank: int,
        transport: str,
        ranks_per_worker: int = 1,
        revision: str | None = None,
        trust_remote_code: bool = False,
        digest: Digest | None = None,
    ):
        self.settings, self.model_path, self.temperature, self.seed = settings, model_path, temperature, seed
        self.rank, self.transport, self.ranks_per_worker = rank, transport, ranks_per_worker
        self.revision, self.trust_remote_code, self.digest = revision, trust_remote_code, digest
        self.device = torch.device("cuda", 0) if settings.gpus_per_rank else torch.device("cpu")
        self.version: int | None = 0
        self.sender, self.spare = None, Spare()

    def start(self, address: str, port: int) -> None:
        """Join the other ranks, load the model, build the ZeRO engine."""
        settings = self.settings
        cores = len(os.sched_getaffinity(0))
        if settings.gpus_per_rank:
            torch.cuda.set_device(self.device)
            if settings.offload_optimizer:  # its steps are on the CPUs, and Ray leaves one of these to each process
                torch.set_num_threads(min(settings.threads or STEP_THREADS, max(1, cores // settings.ranks)))
        else:
            torch.set_num_threads(min(settings.threads_on_cpu, cores))
            add_in_one_order()
        os.environ |= {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(port),
            "RANK": str(self.rank),
            "WORLD_SIZE": str(settings.ranks),
            "LOCAL_RANK": "0",  # Ray shows each rank only its own device
            "LOCAL_SIZE": str(settings.ranks),
        }
        # Else DeepSpeed compiles a collective of its own, which inference alone calls, and maps 64 MiB for it.
        deepspeed.ops.__compatible_ops__ = {}
        deepspeed.utils.logger.setLevel("WARNING")
        transformers.utils.logging.disable_progress_bar()
        deepspeed.init_distributed(
            dist_backend="nccl" if settings.gpus_per_rank else "gloo",
            auto_mpi_discovery=False,
            verbose=False,
            timeout=timedelta(seconds=max(settings.update_seconds, settings.sync.timeout_seconds)),
        )
        source = {"revision": self.revision, "trust_remote_code": self.trust_remote_code, "sharded": settings.zero == 3}
        model = load_model(self.model_path, settings, self.seed, **source)
        self.fingerprint = fingerprint(model)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimiser = make_optimiser(trained, settings)
        for group in self.optimiser.param_groups:
            group["lr"] = 0.0  # until an update sets it
        self.engine, *_ = deepspeed.initialize(
            model=model, model_parameters=trained, optimizer=self.optimiser, config=deepspeed_config(settings)
        )
        if settings.zero == 0:  # in half precision DeepSpeed has made a step of nothing, and Adam counts it
            self.optimiser.state.clear()
        width = self.engine.module.get_output_embeddings().in_features
        critic, reference = make_critic(settings, width, self.device, self.seed), None
        if reads_base(settings):
            reference = Reference(self.engine, settings, self.device, self.model_path, **source)
        self.learning = Learning(
            self.engine,
            self.optimiser,
            settings,
            temperature=self.temperature,
            device=self.device,
            seed=self.seed,
            rank=self.rank,
            critic=critic,
            reference=reference,
        )

    # training

    def update(self, episodes: Sequence[Any], rewards: Sequence[ShapedRewards]) -> dict[str, float]:
        """The optimiser steps on a batch; what they measured."""
        began = time.monotonic()
        trajectories = collect(self._fetch(episodes), rewards)
        fetch = time.monotonic() - began
        learned = self.update_on(trajectories)
        self.spare.look(time.monotonic())
        return learned | {"fetch_seconds": fetch}

    def update_on(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """The same on trajectories that are given."""
        figures = self.learning.update(batch_of(trajectories), self.version)
        if figures["applied"]:
            self.version = None
        return figures

    def advantages(self) -> tuple[list[tuple[int, str]], list[int], np.ndarray]:
        return self.learning.advantages

    def _fetch(self, episodes: Sequence[Any]) -> list[Episode]:
        """Each entry is an episode, a list of them, or a reference to either."""
        references = [entry for entry in episodes if isinstance(entry, ray.ObjectRef)]
        values = iter(ray.get(references, timeout=self.settings.update_seconds) if references else [])
        found: list[Episode] = []
        for entry in episodes:
            value = next(values) if isinstance(entry, ray.ObjectRef) else entry
            found += value if isinstance(value, list) else [value]
        return found

    def score(self, sequences: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Log-prob at temperature 1 of each token after the first, by the weights held now."""
        arrays = [np.asarray(sequence, np.int64) for sequence in sequences]
        lengths = [len(array) for array in arrays]
        if not arrays or min(lengths) == 0:
            raise ValueError("score needs sequences of at least one token")
        order = sorted(range(len(arrays)), key=lambda index: -lengths[index])
        scores: list[np.ndarray] = [np.empty(0, np.float32)] * len(arrays)
        self.engine.eval()
        with torch.no_grad():
            for chosen in fill(lengths, order, max(self.settings.tokens_per_micro_batch, max(lengths))):
                predicted = [np.arange(lengths[index]) > 0 for index in chosen]
                pack = pack_sequences([arrays[index] for index in chosen], predicted)
                found = pack_logprobs(self.engine, pack, 1.0, self.device).cpu().numpy()
                for index, part in zip(
                    chosen, np.split(found, np.cumsum([lengths[i] - 1 for i in chosen])[:-1]), strict=True
                ):
                    scores[index] = part
        return scores

    # weights out

    def send_weights(self, workers: list, version: int) -> dict[str, int]:
        with without_inductor():
            from learners.transport.sender import WeightSender

        if self.sender is None:
            self.sender = WeightSender(
                self.engine.module,
                self.transport,
                self.settings.sync,
                self.rank,
                ranks_per_worker=self.ranks_per_worker,
                digest=self.digest,
            )
        digests = self.sender.send(workers, version)
        self.version = version
        return digests

    def adopt(self, version: int) -> None:
        self.version = version

    def export(self, folder: str) -> None:
        """Hugging Face format with the tokenizer, or PEFT format of an adapter; gathered by
        all ranks, written by the first."""
        from learners.transport.source import ModuleWeights

        adapter = self.settings.lora.rank > 0
        source = ModuleWeights(self.engine.module, adapter, self.settings.sync.bucket_mib * 2**20)
        weights = {}
        for name, tensor in source:
            if self.rank == 0:
                weights[name] = tensor.to("cpu", copy=True).contiguous()
        if self.rank == 0:
            if not adapter:
                weights |= {name: each.to("cpu", copy=True) for name, each in kept_buffers(self.engine.module).items()}
            target = Path(folder)
            target.mkdir(parents=True, exist_ok=True)
            if adapter:
                write_adapter(target, self.engine.module, weights)
            else:
                # the names are a checkpoint's already
                self.engine.module.save_pretrained(target, state_dict=weights, save_original_format=False)
            AutoTokenizer.from_pretrained(
                self.model_path, revision=self.revision, trust_remote_code=self.trust_remote_code
            ).save_pretrained(target)
            make_readable(target)
        dist.barrier()

    # checkpoints

    def save(self, folder: str) -> None:
        counters = self.learning.counters() | {"version": self.version}
        checkpoint.save(self.engine, self.learning.parts(), Path(folder), self._identity(), counters)

    def load(self, folder: str) -> None:
        counters = checkpoint.load(self.engine, self.learning.parts(), Path(folder), self._identity())
        self.learning.restore(counters)
        self.version = counters["version"]

    def _identity(self) -> dict[str, Any]:
        """What has to be the same for a checkpoint to fit."""
        settings = self.settings
        return {
            "model": self.fingerprint,
            "ranks": settings.ranks,
            "zero": settings.zero,
            "dtype": str(next(self.engine.module.parameters()).dtype).removeprefix("torch."),
            "lora.rank": settings.lora.rank,
            "lora.targets": sorted(settings.lora.targets) if settings.lora.rank else [],
            "credit.method": CREDIT.name_of(settings.credit),
        } | ({"critic.states": settings.credit.critic_settings.states} if self.learning.critic is not None else {})

    def parameters(self) -> dict[str, np.ndarray]:
        """The trained weights, whole, as float32: what tests and digests compare."""
        from learners.transport.source import ModuleWeights

        source = ModuleWeights(self.engine.module, self.settings.lora.rank > 0, self.settings.sync.bucket_mib * 2**20)
        return {name: tensor.float().cpu().numpy().copy() for name, tensor in source}

    def close(self) -> None:
        if self.sender is not None:
            self.sender.close()
        dist.destroy_process_group()
