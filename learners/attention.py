"""Causal attention over sequences packed end to end, on torch's fused kernels.

A dense mask over a whole pack costs (tokens in the pack)^2. Here sequences of similar
length become the rows of small batches, filled up at their ends: under a causal mask no
token sees what comes after it, so filling needs no mask and the fused causal kernel
runs. A batch holds sequences of more than half its longest, so at most half is filling.
No token ever attends to another sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "packed_sdpa"


@dataclass(slots=True)
class Layout:
    """Where the tokens of a pack go: `groups` are [rows, longest] indices into the pack;
    `restore` finds each token of the pack among the groups' rows, laid end to end."""

    groups: list[torch.Tensor]
    restore: torch.Tensor
    masks: list[torch.Tensor | None]  # bool [rows, 1, longest, longest] where a row has branches


def layout(
    lengths: np.ndarray, device: torch.device, until: np.ndarray | None = None, begin: np.ndarray | None = None
) -> Layout:
    """With `until` and `begin`, int64 [tokens], a token sees of what is before it in its sequence
    the places before `until` and those from `begin` on: a branch, as learners/choices.py makes them."""
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(-lengths, kind="stable")
    groups, restore, filled, masks = [], np.empty(int(lengths.sum()), np.int64), 0, []
    while len(order):
        longest = lengths[order[0]]
        rows = order[lengths[order] * 2 > longest]
        order = order[len(rows) :]
        column = np.arange(longest)
        own = column < lengths[rows, None]
        # filling repeats a row's first token: its output is dropped, so it gets no gradient
        index = starts[rows, None] + np.where(own, column, 0)
        restore[index[own]] = filled + np.flatnonzero(own)
        filled += index.size
        groups.append(torch.from_numpy(index).to(device))
        masks.append(None)
        if begin is not None and begin[index].any():
            seen = (column < until[index][..., None]) | (column >= begin[index][..., None])
            masks[-1] = torch.from_numpy(seen & (column <= column[:, None]))[:, None].to(device)
    return Layout(groups, torch.from_numpy(restore).to(device), masks)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    packed: Layout | None = None,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """[1, heads, tokens, width] -> [1, tokens, heads, width], as transformers expects."""
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if other.get(name) is not None]
    if packed is None or unknown:
        reason = f"uses {unknown[0]}" if unknown else "does not hand its arguments on to its attention"
        raise ValueError(f"{type(module).__name__} {reason}; set learner.attention=eager for this model")
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))  # [tokens, heads, width]
    parts = []
    for index, mask in zip(packed.groups, packed.masks, strict=True):
        rows, longest = index.shape
        q, k, v = (t[index.reshape(-1)].view(rows, longest, *t.shape[1:]).transpose(1, 2) for t in (query, key, value))
        if sliding_window is not None and longest > sliding_window:
            if mask is not None:
                raise ValueError(f"choices among listed actions do not fit a sliding window of {sliding_window} tokens")
            place = torch.arange(longest, device=q.device)
            behind = place[:, None] - place[None, :]
            mask = (behind >= 0) & (behind < sliding_window)
        out = F.scaled_dot_product_attention(
            q, k, v, mask, dropout, is_causal=mask is None, scale=scaling, enable_gqa=q.shape[1] != k.shape[1]
        )
        parts.append(out.transpose(1, 2).reshape(rows * longest, *out.shape[1:2], out.shape[3]))
    return torch.cat(parts)[packed.restore][None], None


ALL_ATTENTION_FUNCTIONS.register(NAME, packed_attention)
