"""LoRA adapters: only the adapter travels, and lands as a PEFT folder.

Buckets arrive in the object store's form, plus the adapter's `peft_config`. They are
collected until the update is finished; only then is the folder written, in one rename,
so an engine never reads half an adapter.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from actors.own_folder import OwnFolder, shared_memory
from actors.transport.bucket import BadBucket, tensors_of
from actors.transport.object_store import read_object_store

PREFIX = "parley-adapter-"


class AdapterReceiver:
    """Collects one adapter per update. `folder` always holds the latest complete one; before
    the first update that is a zero adapter on one projection, which changes nothing, so that
    requests refer to an adapter from the start and are carried over by the first update too."""

    def __init__(self, rank: int, model_path: str, trust_remote_code: bool = False):
        self.rank = rank
        self.own = OwnFolder(PREFIX, shared_memory())
        self.close = self.own.close
        self.folder = self.own.path / "adapter"
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
        fresh = self.own.path / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)  # of an update that broke off
        fresh.mkdir()
        tensors = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        save_file(tensors, fresh / "adapter_model.safetensors")
        (fresh / "adapter_config.json").write_text(json.dumps(self.config, default=sorted))
        shutil.rmtree(self.folder, ignore_errors=True)
        os.rename(fresh, self.folder)


def scale_of(config: dict[str, Any]) -> float:
    """What B A is multiplied by."""
    return config["lora_alpha"] / (config["r"] ** 0.5 if config.get("use_rslora") else config["r"])


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
