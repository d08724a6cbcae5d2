"""Where a model of experts chooses them: an engine records at its routers what the trainer replays at its own.

The experts of a sequence are one array [tokens, decoder layers, choices of a token]. A layer without
experts has zeros there, so both sides find a layer by its number, whichever others have experts.
"""

from __future__ import annotations

import re

import torch
from transformers import PreTrainedModel

# Routers that choose by one torch.topk and return (logits, weights, chosen experts).
REPLAYABLE = {"MixtralTopKRouter", "OlmoeTopKRouter", "Qwen2MoeTopKRouter", "Qwen3MoeTopKRouter"}


def router_modules(model: torch.nn.Module) -> dict[torch.nn.Module, int]:
    """The routers that transformers can record, with the place of the logits among what each returns."""
    found = {}
    for part in model.modules():
        recorded = getattr(part, "_can_record_outputs", None) if isinstance(part, PreTrainedModel) else None
        if recorder := (recorded or {}).get("router_logits"):
            routers = [module for module in part.modules() if isinstance(module, recorder.target_class)]
            found |= dict.fromkeys(routers, recorder.index)
    return found


def router_layers(model: torch.nn.Module) -> dict[torch.nn.Module, int]:
    """The routers, with the number of the decoder layer that each belongs to."""
    routers = router_modules(model)
    return {
        module: int(re.search(r"\.(\d+)\.", name)[1]) for name, module in model.named_modules() if module in routers
    }


def check_replayable(model: torch.nn.Module) -> None:
    """A ValueError says why the choices of these routers cannot be recorded and replayed."""
    kinds = {type(router).__name__ for router in router_modules(model)}
    if not kinds:
        raise ValueError(
            f"learner.router_replay=true, but {type(model).__name__} has no experts to choose: set it to false"
        )
    if others := sorted(kinds - REPLAYABLE):
        raise ValueError(
            f"learner.router_replay=true cannot replay a {others[0]}, which chooses in a way of its own; set it to "
            f"false (it knows {', '.join(sorted(REPLAYABLE))})"
        )
