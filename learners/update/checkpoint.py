"""Saving and restoring a learner, bit for bit.

    folder/learner.json   what the checkpoint is of, and the counters
    folder/zero/          DeepSpeed's own files: weights, moments, master weights
    folder/critic.pt      weights and moments of the critic, where the credit method has one; of
                          archer's also the slow copies and the replay

Every rank writes its part, so the folder is on storage that all of them see. The caller
makes the whole of it atomic: it writes to a folder that gets its name afterwards.
A LoRA checkpoint holds the adapter only; the base model is where the run found it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from learners.critic.turns import AnyCritic

TAG, CRITIC = "zero", "critic.pt"


def save(
    engine: Any, critic: AnyCritic | None, folder: Path, identity: dict[str, Any], counters: dict[str, Any]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    engine.save_checkpoint(
        str(folder), tag=TAG, save_latest=False, exclude_frozen_parameters=bool(identity["lora.rank"])
    )
    if dist.get_rank() == 0:
        if critic is not None:
            torch.save(critic.state(), folder / CRITIC)
        text = json.dumps({"identity": identity, "counters": counters}, indent=1)
        (folder / "learner.json").write_text(text)
    dist.barrier()


def load(engine: Any, critic: AnyCritic | None, folder: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """Restores the engine and returns the counters. Nothing is touched when the checkpoint
    does not fit."""
    file = folder / "learner.json"
    if not file.is_file():
        raise ValueError(f"{folder} holds no learner checkpoint (learner.json is missing)")
    stored = json.loads(file.read_text())
    for key, here in identity.items():
        there = stored["identity"].get(key)
        if there != here:
            what = "another model" if key == "model" else f"learner.{key}={there}"
            raise ValueError(f"the checkpoint in {folder} is of {what}, but this learner has {key}={here}")
    path, _ = engine.load_checkpoint(str(folder), tag=TAG, load_module_strict=not identity["lora.rank"])
    if path is None:
        raise ValueError(f"the checkpoint in {folder} is incomplete: DeepSpeed found nothing to load in {TAG}/")
    if critic is not None:
        critic.restore(torch.load(folder / CRITIC, map_location=critic.device, weights_only=True))
    return stored["counters"]
