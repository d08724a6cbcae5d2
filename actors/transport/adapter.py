"""LoRA adapters: only the adapter travels, and lands as a PEFT folder.

Buckets arrive in the object store's form, plus the adapter's `peft_config`. They are
collected until the update is finished; only then is the folder written, in one rename,
so an engine never reads half an adapter.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, TextIO

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from actors.transport.bucket import BadBucket, tensors_of
from actors.transport.object_store import read_object_store

PREFIX = "parley-adapter-"
SETTLED_SECONDS = 60.0


class AdapterReceiver:
    """Collects one adapter per update. `folder` always holds the latest complete one; before
    the first update that is a zero adapter on one projection, which changes nothing, so that
    requests refer to an adapter from the start and are carried over by the first update too."""

    def __init__(self, rank: int, model_path: str, trust_remote_code: bool = False):
        self.rank = rank
        memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
        sweep(memory)
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=memory))
        self.folder = self.root / "adapter"
        self.lock = held(self.root)
        self.close = weakref.finalize(self, shutil.rmtree, self.root, ignore_errors=True)  # at exit, if nobody calls it
        projections = linear_projections(model_path, trust_remote_code)
        self.projections = sorted({name.rpartition(".")[2] for name in projections})  # where an adapter may sit
        self.tensors, self.config = zero_adapter(rank, *next(iter(projections.items())))
        self.write()

    def start(self) -> None:
        self.tensors = {}

    def receive(self, info: dict[str, Any]) -> None:
        config = info.get("peft_config")
        if not config:
            raise BadBucket("adapter bucket lacks peft_config")
        if config["r"] > self.rank:
            raise BadBucket(f"adapter has rank {config['r']}, but the engine was started for rank {self.rank}")
        self.config = dict(config)
        self.tensors.update(tensors_of(info, read_object_store(info)))

    def finish(self) -> None:
        if not self.tensors:
            raise BadBucket("the update brought no adapter weights")
        self.write()

    def write(self) -> None:
        fresh = self.root / "fresh"
        fresh.mkdir()
        tensors = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        save_file(tensors, fresh / "adapter_model.safetensors")
        (fresh / "adapter_config.json").write_text(json.dumps(self.config, default=sorted))
        shutil.rmtree(self.folder, ignore_errors=True)
        os.rename(fresh, self.folder)


def scale_of(config: dict[str, Any]) -> float:
    """What B A is multiplied by."""
    return config["lora_alpha"] / (config["r"] ** 0.5 if config.get("use_rslora") else config["r"])


def held(folder: Path) -> TextIO | None:
    """This folder's lock, which goes with the process that holds it, however that ends; None
    if another has it."""
    lock = open(folder / "lock", "w")  # open for as long as the receiver lives
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def sweep(memory: Path) -> None:
    """Remove what engines that were killed have left behind. One that was made this moment
    may not have its lock yet, so only older ones are looked at."""
    for folder in memory.glob(PREFIX + "*"):
        try:
            if time.time() - folder.stat().st_mtime > SETTLED_SECONDS and (lock := held(folder)):
                shutil.rmtree(folder, ignore_errors=True)
                lock.close()
        except OSError:  # another user's, or gone meanwhile
            continue


def linear_projections(model_path: str, trust_remote_code: bool) -> dict[str, torch.nn.Linear]:
    """The model's projections by name, without their weights; the output head is not one of them."""
    config = AutoConfig.from_pretrained(model_path, trust_remote_code=trust_remote_code)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
    head = model.get_output_embeddings()
    found = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    }
    if not found:
        raise ValueError(f"{model_path} has no linear projection that could carry an adapter")
    return found


def zero_adapter(rank: int, name: str, projection: torch.nn.Linear) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What a fresh LoRA is to the model: B = 0. One projection is enough to say so."""
    tensors = {
        f"base_model.model.{name}.lora_A.weight": torch.zeros(rank, projection.in_features),
        f"base_model.model.{name}.lora_B.weight": torch.zeros(projection.out_features, rank),
    }
    target = name.rpartition(".")[2]
    return tensors, {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": rank,
        "target_modules": [target],
    }
