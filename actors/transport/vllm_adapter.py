"""What a vLLM process holds of the adapter it was sent.

Each projection has a slot for A and one for B, as large as the largest rank allowed: zeros
around the adapter's own numbers, B already multiplied by the adapter's scale. Projections that
vLLM fuses have a pair of slots for each part. A slot without an adapter is all zeros, so one
that an older adapter left behind is found too.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.lora.utils import parse_fine_tuned_lora_name

from actors.transport.receipt import Fault
from actors.transport.tally import Tally

Pair = tuple[str, torch.Tensor]  # the tensor's name in the adapter file, and the tensor


def read_slots(
    manager: Any, lora_id: int, tensors: dict[str, torch.Tensor], scale: float, places: Tally
) -> list[Fault]:
    """Fills `places` with what every slot should hold and holds; returns what found no slot."""
    mapper = getattr(manager.model, "hf_to_vllm_mapper", None)
    mapper = mapper.get_rename_mapper() if mapper is not None else None
    pairs: dict[tuple[str, bool], Pair] = {}
    for name, tensor in tensors.items():
        pairs[parse_fine_tuned_lora_name(name, mapper)] = name, tensor
    slot, used = manager.lora_index_to_id.index(lora_id), set()
    for place, module in manager.modules.items():
        parts = manager.packed_modules.get(place, [place])
        for which, first, slots in (("A", True, module.lora_a_stacked), ("B", False, module.lora_b_stacked)):
            named = [pairs.get((part, first)) for part in parts]
            used.update(name for name, _ in filter(None, named))
            shares = cut([pair and prepared(pair[1], slots[0].dtype, scale, first) for pair in named], module, first)
            for number, (held, share) in enumerate(zip(slots, shares, strict=True)):
                names = named[number] if len(named) == len(shares) else named[0]
                name = names[0] if names else f"{parts[min(number, len(parts) - 1)]}.lora_{which}"
                where = f"{place}.lora_{which}[{number}]"
                held = held[slot, 0]
                wanted = torch.zeros_like(held)
                if share is not None:
                    wanted[: share.shape[0], : share.shape[1]] = share
                places.expect(name, where, wanted, wanted[:0], held.dtype)
                places.find(name, where, held)
    return [Fault(name, "arrived, but no projection of the engine took it") for name in tensors if name not in used]


def prepared(tensor: torch.Tensor, dtype: torch.dtype, scale: float, first: bool) -> torch.Tensor:
    """As vLLM does it: into its type first, then multiplied in that type."""
    own = tensor.to(dtype)
    return own if first or scale == 1 else own * scale


def cut(parts: list[torch.Tensor | None], module: Any, first: bool) -> list[torch.Tensor | None]:
    """This rank's share of each slot."""
    slots = len(module.lora_a_stacked)
    if slots == 1:
        if module.tp_size > 1 and parts[0] is not None:
            return [module.slice_lora_a(parts[0]) if first else module.slice_lora_b(parts[0])]
        return parts
    if len(parts) != slots and parts[0] is not None:  # one matrix of the checkpoint covers all slots
        parts = [parts[0]] * slots if first else list(parts[0].split(list(module.output_sizes)))
    elif len(parts) != slots:
        parts = [None] * slots
    if module.tp_size > 1:
        return module.slice_lora_a(parts) if first else module.slice_lora_b(parts)
    return parts
