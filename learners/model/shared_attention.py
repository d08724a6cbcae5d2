"""Attention where segments of a pack go on from others: in parts, which meet in their normalisers.

A token sees its own segment up to itself, and all of the segments that lead to it. Each of these is a part, by a
kernel that knows nothing of the others, and gives its output o and its log-sum-exp l. Two parts together are

    l = log(exp l1 + exp l2)        o = exp(l1 - l) o1 + exp(l2 - l) o2

and the shares of all keys are exp(score - l), so the gradient of each part is what the kernel makes of it when it
is told the o and the l of all of them. No key is copied, and no mask is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

NOBODY = 1e9  # a log-sum-exp that leaves no key a share

Part = tuple[int, int, int]  # keys from one place to another, and the queries from there to a third


def segments_seen(lengths: Sequence[int], until: Sequence[int]) -> list[Part]:
    """Of each segment that others go on from: its keys, and their queries, which follow it."""
    ends = [0, *accumulate(map(int, lengths))]
    return [(ends[n], ends[n + 1], ends[last]) for n, last in enumerate(until) if last > n + 1]


def attend_shared(query, key, value, packed: Any, scale: float | None) -> torch.Tensor:
    """The kernels take values of the width of queries and keys: zeros beside them change nothing."""
    width, wide = query.shape[-1], value.shape[-1]
    if width == wide:
        return SharedAttention.apply(query, key, value, packed, scale)
    query, key, value = (F.pad(each, (0, max(width, wide) - each.shape[-1])) for each in (query, key, value))
    return SharedAttention.apply(query, key, value, packed, width**-0.5 if scale is None else scale)[..., :wide]


class SharedAttention(torch.autograd.Function):
    """[tokens, heads, width] -> [tokens, heads, width]"""

    @staticmethod
    def forward(ctx, query, key, value, packed, scale):
        query, key, value = map(_in_line, (query, key, value))
        rows = [each.queries for each in packed.rows]
        found = [
            _attend(*(_row_of(tensor, row) for tensor in (query, key, value)), True, scale) for row in rows
        ]  # [rows, heads, longest, width] and [rows, heads, longest]
        out, lse = (
            torch.cat([part.transpose(1, 2).flatten(0, 1) for part in parts])[packed.restore]
            for parts in zip(*found, strict=True)
        )
        merged = out.to(lse.dtype)  # in float32 at least
        for begin, end, until in packed.shared:
            parts = query[end:until], key[begin:end], value[begin:end]
            out, of_part = (each[0].transpose(0, 1) for each in _attend(*map(_as_row, parts), False, scale))
            both = torch.logaddexp(lse[end:until], of_part)
            merged[end:until] *= (lse[end:until] - both).exp()[..., None]
            merged[end:until] += (of_part - both).exp()[..., None] * out
            lse[end:until] = both
        merged = merged.to(query.dtype)
        ctx.save_for_backward(query, key, value, merged, lse)
        ctx.packed, ctx.scale = packed, scale
        return merged

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        query, key, value, out, lse = ctx.saved_tensors
        packed, taken, gradient = ctx.packed, (query, key, value), _in_line(gradient)
        found = []
        for row in packed.rows:
            gone = _row_of(gradient, row.queries).masked_fill(~row.own[:, None, :, None], 0)
            of_row = _row_of(lse, row.queries).masked_fill(~row.own[:, None], NOBODY)
            own = [_row_of(each, row.queries) for each in (*taken, out)]
            found.append(_attend_back(gone, *own, of_row, True, ctx.scale))
        back = [
            torch.cat([part.transpose(1, 2).flatten(0, 1) for part in parts])[packed.restore].to(lse.dtype)
            for parts in zip(*found, strict=True)
        ]
        for begin, end, until in packed.shared:
            asked = [_as_row(each[end:until]) for each in (gradient, query)]
            seen = [_as_row(each[begin:end]) for each in (key, value)]
            given = [_as_row(each[end:until]) for each in (out, lse)]
            parts = _attend_back(*asked, *seen, *given, False, ctx.scale)
            for total, part, place in zip(back, parts, ((end, until), (begin, end), (begin, end)), strict=True):
                total[slice(*place)] += part[0].transpose(0, 1)
        return *(each.to(of.dtype) for each, of in zip(back, taken, strict=True)), None, None


def _in_line(tensor: torch.Tensor) -> torch.Tensor:
    """The kernels take the numbers of a head to lie beside each other, and do not look."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _row_of(tokens: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """[tokens, heads, ...] -> [rows, heads, longest, ...]"""
    return tokens[index].transpose(1, 2)


def _as_row(tokens: torch.Tensor) -> torch.Tensor:
    return tokens[None].transpose(1, 2)


def _attend(query, key, value, causal: bool, scale: float | None) -> tuple[torch.Tensor, torch.Tensor]:
    if query.device.type == "cpu":
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal, scale=scale)
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, scale=scale)[:2]


def _attend_back(gradient, query, key, value, out, lse, causal: bool, scale: float | None) -> Sequence[torch.Tensor]:
    given = gradient, query, key, value, out, lse
    if query.device.type == "cpu":
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*given, 0.0, causal, scale=scale)
    given = *given[:5], lse.contiguous()
    drawn = torch.empty(2, dtype=torch.uint64, device=query.device)  # of dropout, which there is none of
    longest = query.shape[2], key.shape[2]
    return torch.ops.aten._scaled_dot_product_flash_attention_backward(
        *given, None, None, *longest, 0.0, causal, drawn, drawn[:0], scale=scale
    )
