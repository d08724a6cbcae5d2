"""Saving and restoring a learner, bit for bit.

    folder/learner.json   what the checkpoint is of, and the counters
    folder/zero/          DeepSpeed's own files: weights, moments, master weights
    folder/critic.pt      weights and moments of the critic, where the credit method has one; of
                          archer's also the slow copies and the replay
    folder/replayed.pt    the batches that are learned from once more, with learner.replay_batches

Every rank writes its part, so the folder is on storage that all of them see. The caller
makes the whole of it atomic: it writes to a folder that gets its name afterwards.
A LoRA checkpoint holds the adapter only; the base model is where the run found it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol

import torch
import torch.distributed as dist
from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler, LossScaler
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils.tensor_fragment import fragment_address

from learners.batch.replayed import ReplayedBatches

TAG = "zero"
ONLY_WEIGHTS = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # overrules the weights_only=False of a library
KNOWN = [DynamicLossScaler, LossScaler, ZeroStageEnum, fragment_address]  # DeepSpeed's classes in its files
# Of Python's own ways the first ones of 3.11 call getattr, which is not for a file to call.
ZeroStageEnum.__reduce_ex__ = lambda member, _: (type(member), (member.value,))


class Part(Protocol):
    """What a learner keeps beside the engine's weights, the same on every rank."""

    device: torch.device

    def state(self) -> Any:
        """Of tensors and plain values."""

    def restore(self, state: Any) -> None: ...


Parts = dict[str, Part]  # by the name of the file, without its ending


def save(engine: Any, parts: Parts, folder: Path, identity: dict[str, Any], counters: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    engine.save_checkpoint(
        str(folder), tag=TAG, save_latest=False, exclude_frozen_parameters=bool(identity["lora.rank"])
    )
    if dist.get_rank() == 0:
        for name, part in parts.items():
            torch.save(part.state(), folder / f"{name}.pt")
        text = json.dumps({"identity": identity, "counters": counters}, indent=1)
        (folder / "learner.json").write_text(text)
    dist.barrier()


@contextmanager
def only_data() -> Iterator[None]:
    """DeepSpeed reads its files as pickles, which may run any code. Here they may hold tensors, plain values and the
    classes that DeepSpeed puts there."""
    os.environ[ONLY_WEIGHTS] = "1"
    try:
        with torch.serialization.safe_globals(KNOWN):
            yield
    finally:
        del os.environ[ONLY_WEIGHTS]


def unknown(error: UnpicklingError) -> str:
    """The class that torch refused to make, out of its long message."""
    found = re.search(r"GLOBAL (\S+)", str(error))
    return found[1] if found else str(error).strip().splitlines()[0]


def load(engine: Any, parts: Parts, folder: Path, identity: dict[str, Any]) -> dict[str, Any]:
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
    try:
        with only_data():
            path, _ = engine.load_checkpoint(str(folder), tag=TAG, load_module_strict=not identity["lora.rank"])
    except UnpicklingError as error:
        raise ValueError(f"the checkpoint in {folder} holds more than a learner's data: {unknown(error)}") from error
    if path is None:
        raise ValueError(f"the checkpoint in {folder} is incomplete: DeepSpeed found nothing to load in {TAG}/")
    for name, part in parts.items():
        kept = folder / f"{name}.pt"
        if isinstance(part, ReplayedBatches) and not kept.is_file():
            continue  # the run that saved it did not replay: this one begins to
        part.restore(torch.load(kept, map_location=part.device, weights_only=True))
    return stored["counters"]
