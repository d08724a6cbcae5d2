"""Causal attention over sequences packed end to end, on torch's fused kernels.

A dense mask over a whole pack costs (tokens in the pack)^2. Here sequences of similar
length become the rows of small batches, filled up at their ends: under a causal mask no
token sees what comes after it, so filling needs no mask and the fused causal kernel
runs. A batch holds sequences of more than half its longest, so at most half is filling.
No token ever attends to another sequence.

What branches off a sequence, as learners/batch/choices.py makes it, becomes rows of its own: all
branches of one place are asked of what is before it and of themselves, and of nothing else.

What sequences have in common, as learners/batch/openings.py lays it, is a segment that others go on from: each
segment is a row of its own, and sees those before it in learners/model/shared_attention.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from learners.model.shared_attention import Part, attend_shared, segments_seen

NAME = "packed_sdpa"
VARLEN = "packed_varlen"
PLAIN = "packed_plain"  # the same by the formula, score for score; also where scores are capped
BRANCH_TOKENS = 128  # in a row: more see more that they must not, fewer copy what is before them more often


@dataclass(slots=True)
class Rows:
    """One call of a kernel: indices into the pack, [rows, queries] and [rows, keys]."""

    queries: torch.Tensor
    own: torch.Tensor  # bool [rows, queries]: the others fill a row up
    keys: torch.Tensor
    mask: torch.Tensor | None = None  # bool [rows, 1, queries, keys]; None: keys are the queries, and it is causal


@dataclass(slots=True)
class Layout:
    """Where the tokens of a pack go. The queries of all rows, laid end to end, are the tokens of `places`,
    and `restore` finds each token among them."""

    rows: list[Rows]
    places: torch.Tensor
    restore: torch.Tensor
    shared: Sequence[Part] = ()  # what rows see beside themselves


def layout(
    lengths: np.ndarray,
    device: torch.device,
    until: np.ndarray | None = None,
    begin: np.ndarray | None = None,
    gone_on: np.ndarray | None = None,
) -> Layout:
    """With `until` and `begin`, int64 [tokens], a token whose `begin` is not 0 is of a branch, behind its
    sequence: it sees there the places before `until`, and those from `begin` on to its own. With `gone_on`,
    int64 [segments], the segments up to that one go on from each."""
    starts = np.cumsum(lengths) - lengths
    made = list(_sequences(starts, lengths if begin is None else np.add.reduceat(begin == 0, starts)))
    if begin is not None and begin.any():
        made += _branches(starts, lengths, until, begin)
    restore, filled = np.empty(int(lengths.sum()), np.int64), 0
    for queries, own, *_ in made:
        restore[queries[own]] = filled + np.flatnonzero(own)
        filled += queries.size
    rows = [Rows(*(torch.from_numpy(array).to(device) for array in each)) for each in made]
    places = torch.cat([each.queries.reshape(-1) for each in rows])
    shared = () if gone_on is None else segments_seen(lengths, gone_on)
    return Layout(rows, places, torch.from_numpy(restore).to(device), shared)


def _alike(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Indices of sequences that fill up one another's rows: each is longer than half of the first."""
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        together = order[lengths[order] * 2 > lengths[order[0]]]
        order = order[len(together) :]
        yield together


def _sequences(starts: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Queries, which of them are tokens of their own, keys."""
    for rows in _alike(lengths):
        column = np.arange(lengths[rows[0]])
        own = column < lengths[rows, None]
        # filling repeats a row's first token: its output is dropped, so it gets no gradient
        index = starts[rows, None] + np.where(own, column, 0)
        yield index, own, index


def _branches(
    starts: np.ndarray, lengths: np.ndarray, until: np.ndarray, begin: np.ndarray
) -> Iterator[tuple[np.ndarray, ...]]:
    """Queries, which of them are tokens of their own, keys, and which keys a query sees: a row is
    some branches of one sequence, which follow each other, and what is before the last of them."""
    token = np.flatnonzero(begin)
    sequence = np.repeat(np.arange(len(lengths)), lengths)[token]
    place = np.flatnonzero(_changes(sequence, until[token]))  # whose branches begin there
    stretch = (token - starts[sequence])[place] // BRANCH_TOKENS
    begins = place[_changes(sequence[place], stretch)]
    first, count = token[begins], np.diff(np.append(begins, len(token)))
    start, before = starts[sequence[begins]], until[first + count - 1]
    for rows in _alike(before + count):
        row = rows[:, None]
        column = np.arange(count[rows].max())
        own = column < count[row]
        queries = first[row] + np.where(own, column, 0)
        column = np.arange((before + count)[rows[0]])
        shared, there = column < before[row], column < (before + count)[row]
        keys = np.where(shared, start[row] + column, first[row] + column - before[row])
        keys = np.where(there, keys, start[row])
        key, query = (keys - start[row])[:, None], queries[..., None]  # a place in the sequence, one in the pack
        branch = (key >= begin[query]) & (key <= query - start[row][..., None])
        seen = there[:, None] & ((key < until[query]) & shared[:, None] | branch)
        yield queries, own, keys, seen[:, None]


def _changes(*columns: np.ndarray) -> np.ndarray:
    """Where one of them is another than just before; the first place is one."""
    return np.append(True, np.any([np.diff(column) != 0 for column in columns], axis=0))


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    packed: Layout | None = None,
    plain: bool = False,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """[1, heads, tokens, width] -> [1, tokens, heads, width], as transformers expects."""
    unknown = [name for name in ("s_aux", "position_bias") if other.get(name) is not None]
    if packed is None or unknown:
        reason = f"uses {unknown[0]}" if unknown else "does not hand its arguments on to its attention"
        raise ValueError(f"{type(module).__name__} {reason}: it would mix what is packed together")
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))  # [tokens, heads, width]
    if packed.shared:
        if plain or softcap is not None or sliding_window is not None:
            raise ValueError("openings are shared by plain attention alone; set learner.share_openings to false")
        return attend_shared(query, key, value, packed, scaling)[None], None
    parts, queries = [], _in_rows(query, packed)
    if any(rows.mask is not None for rows in packed.rows):  # branches share what is before them
        keys, values = ([_taken(tokens, rows.keys) for rows in packed.rows] for tokens in (key, value))
    else:
        keys, values = _in_rows(key, packed), _in_rows(value, packed)
    for rows, q, k, v in zip(packed.rows, queries, keys, values, strict=True):
        mask, longest = rows.mask, rows.keys.shape[1]
        if sliding_window is not None and longest > sliding_window:
            if mask is not None:
                raise ValueError(f"choices among listed actions do not fit a sliding window of {sliding_window} tokens")
            place = torch.arange(longest, device=q.device)
            behind = place[:, None] - place[None, :]
            mask = (behind >= 0) & (behind < sliding_window)
        if plain or softcap is not None:
            out = _by_the_formula(q, k, v, mask, dropout, scaling, softcap)
        else:
            if not heads_may_share(q.device.type, q.dtype, mask is not None):
                k, v = (_for_each_head(tensor, q.shape[1]) for tensor in (k, v))
            out = F.scaled_dot_product_attention(
                q, k, v, mask, dropout, is_causal=mask is None, scale=scaling, enable_gqa=q.shape[1] != k.shape[1]
            )
        parts.append(out.transpose(1, 2).flatten(0, 1))
    return OutOfRows.apply(torch.cat(parts), packed.restore)[None], None


def heads_may_share(device: str, dtype: torch.dtype, masked: bool) -> bool:
    """Whether a fused kernel takes fewer heads of keys than of queries. On CUDA that is flash attention's
    alone, which knows neither masks nor float32: with shared heads torch would compute these by the
    plain formula, and hold every score."""
    return device != "cuda" or (dtype in (torch.bfloat16, torch.float16) and not masked)


def _for_each_head(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Keys or values, as often as heads of queries share them."""
    return tensor.repeat_interleave(heads // tensor.shape[1], 1)


def varlen_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """torch's own flash attention over sequences laid end to end: no filling, and no copies into rows."""
    from torch.nn.attention.varlen import varlen_attn

    unknown = [name for name in ("softcap", "s_aux", "position_bias") if other.get(name) is not None]
    unknown += ["dropout"] if dropout else []
    if cu_seq_lens_q is None or unknown:
        reason = f"uses {unknown[0]}" if unknown else "does not hand its arguments on to its attention"
        raise ValueError(f"{type(module).__name__} {reason}, which learner.attention=varlen does not know; set sdpa")
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))  # [tokens, heads, width]
    bounds = cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q
    window = (-1 if sliding_window is None else sliding_window - 1, 0)
    shared = query.shape[1] != key.shape[1]
    return varlen_attn(query, key, value, *bounds, scale=scaling, window_size=window, enable_gqa=shared)[None], None


def _by_the_formula(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    scaling: float | None,
    softcap: float | None,
) -> torch.Tensor:
    """softmax(q k / sqrt(width)) v, with scores kept within +-softcap; memory (longest in a row)^2."""
    key, value = (_for_each_head(tensor, query.shape[1]) for tensor in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is None:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    shares = scores.masked_fill(~mask, -torch.inf).softmax(-1, dtype=torch.float32).to(query.dtype)
    return F.dropout(shares, dropout) @ value


class IntoRows(torch.autograd.Function):
    """[tokens, ...] -> [places, ...]. A place that fills up a row repeats a token and has no gradient, so that of
    each token is found at one place."""

    @staticmethod
    def forward(ctx, tokens, places, restore):
        ctx.save_for_backward(restore)
        return tokens.index_select(0, places)

    @staticmethod
    def backward(ctx, gradient):
        (restore,) = ctx.saved_tensors
        return gradient.index_select(0, restore), None, None


class OutOfRows(torch.autograd.Function):
    """[places, ...] -> [tokens, ...]"""

    @staticmethod
    def forward(ctx, rows, restore):
        ctx.save_for_backward(restore)
        ctx.places = len(rows)
        return rows.index_select(0, restore)

    @staticmethod
    def backward(ctx, gradient):
        (restore,) = ctx.saved_tensors
        nothing = gradient.new_zeros(ctx.places, *gradient.shape[1:])
        return nothing.index_copy_(0, restore, gradient), None


def _in_rows(tokens: torch.Tensor, packed: Layout) -> list[torch.Tensor]:
    """[tokens, heads, width] -> for each call of a kernel [rows, heads, longest, width]"""
    parts = IntoRows.apply(tokens, packed.places, packed.restore).split([rows.queries.numel() for rows in packed.rows])
    return [
        part.unflatten(0, rows.queries.shape).transpose(1, 2) for part, rows in zip(parts, packed.rows, strict=True)
    ]


def _taken(tokens: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """[tokens, heads, width] -> [rows, heads, longest, width]"""
    return tokens[index.reshape(-1)].view(*index.shape, *tokens.shape[1:]).transpose(1, 2)


ALL_ATTENTION_FUNCTIONS.register(NAME, packed_attention)
ALL_ATTENTION_FUNCTIONS.register(VARLEN, varlen_attention)
ALL_ATTENTION_FUNCTIONS.register(PLAIN, partial(packed_attention, plain=True))
