"""The policy as it was before the run changed it: what the KL terms stay close to.

With an adapter it is the model with the adapter off, which costs no memory. With all weights
trained it is a frozen copy, there only if something reads it: whole on every rank, or cut up over
them under ZeRO-3, as the trained weights are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from learners.model.load import load_model
from learners.optimiser import deepspeed_config
from learners.settings import LearnerSettings, LoraSettings


def reads_reference(settings: LearnerSettings) -> bool:
    """Whether something of this learner asks for the reference's log-probs."""
    return settings.loss.kl > 0 or "reference" in settings.credit.readings


def reads_base(settings: LearnerSettings) -> bool:
    """Whether something asks for the reference at all: the critic may, for its states."""
    critic = settings.credit.critic_settings
    return reads_reference(settings) or (critic is not None and critic.states == "base")


class Reference:
    def __init__(
        self,
        engine: Any,
        settings: LearnerSettings,
        device: torch.device,
        path: str,
        revision: str | None = None,
        trust_remote_code: bool = False,
        sharded: bool = False,
    ):
        """From `path` on as load_model takes them."""
        self.engine, self.frozen = engine, None
        if not settings.lora.rank:
            plain = settings.model_copy(update={"lora": LoraSettings(), "gradient_checkpointing": False})
            frozen = load_model(path, plain, 0, revision, trust_remote_code, sharded).eval().requires_grad_(False)
            self.frozen = gathering(frozen, plain) if sharded else frozen.to(device)

    @contextmanager
    def model(self) -> Iterator[torch.nn.Module]:
        """What to ask for log-probs. Under ZeRO-3 all ranks have to ask together."""
        if self.frozen is not None:
            yield self.frozen
            return
        with self.engine.module.disable_adapter():
            yield self.engine


def gathering(model: torch.nn.Module, settings: LearnerSettings) -> torch.nn.Module:
    """DeepSpeed's engine around weights that are cut up and not trained: each layer is whole while it works."""
    import deepspeed

    return deepspeed.initialize(model=model, config=deepspeed_config(settings))[0]
