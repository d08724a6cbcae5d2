"""Log-probs, entropies and maxima read at the output head, without ever holding all logits.

    for each slice of the vocabulary      logits -> their log-sum-exp, the target's, the entropy's sum, the maximum

In the backward pass the logits of each slice are made once more, which costs a third product with
the head's weights instead of the memory. Each word's row of the weights is in one slice, so its
gradient is one product, as it is without slices.

The model's own forward pass does all the rest: for its time the head answers with what is
read off its logits, not with the logits. DeepSpeed's hooks see an ordinary module that is called
once, so under ZeRO-3 the weights are whole in there. What a model does to its logits behind its
head (Gemma's soft cap, Cohere's scale) is found by calling its forward with a head and a
body that do nothing, and is applied to every slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from learners.model.slices import fits_at_once, words_at_once

After = Callable[[torch.Tensor], torch.Tensor]


class Nothing:
    """The answer of a body that did nothing but name the hidden states; all else in it is None."""

    def __init__(self, hidden: torch.Tensor):
        self.last_hidden_state = hidden

    def __getitem__(self, place: int) -> torch.Tensor | None:
        return self.last_hidden_state if place == 0 else None

    def __getattr__(self, name: str) -> None:
        return None


class StandIn:
    """A part of a model whose call is answered with `answer`; what is asked of it otherwise, it
    asks of the part, and the parts of the part stand in as well."""

    def __init__(self, part: nn.Module, answer: Any):
        self._part, self._answer = part, answer

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self._answer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return StandIn(found, self._answer) if isinstance(found, nn.Module) else found


class Headless:
    """A causal LM whose body does nothing and whose head answers `logits`."""

    def __init__(self, model: nn.Module, logits: torch.Tensor):
        self._model, self._head, self._logits = model, model.get_output_embeddings(), logits

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if not isinstance(found, nn.Module):
            return found
        return StandIn(found, self._logits if found is self._head else Nothing(self._logits))


def after_head(model: nn.Module) -> After | None:
    """What the model does to logits behind its head; None if nothing. Each logit by itself, or it
    could not be done in slices."""

    def after(logits: torch.Tensor) -> torch.Tensor:
        options = {"use_cache": False, "output_router_logits": False, "logits_to_keep": 0}
        return type(model).forward(Headless(model, logits[None]), inputs_embeds=logits[None], **options).logits[0]

    some = torch.linspace(-90, 90, 24).to(model.get_output_embeddings().weight.dtype).view(3, 8)
    found = after(some)
    if found.shape != some.shape or not torch.equal(found[:, 2:5], after(some[:, 2:5])):
        raise ValueError(
            f"{type(model).__name__} does more to its logits than can be done in slices of its vocabulary; lower "
            "learner.tokens_per_micro_batch until all of them fit in one"
        )
    return None if torch.equal(found.float(), some.float()) else after


def in_slices(model: nn.Module, places: int) -> bool:
    """Whether the logits of so many places are too many to be held. A head with an adapter of its
    own is always asked for all of them."""
    head = model.get_output_embeddings()
    return type(head) is nn.Linear and not fits_at_once(places, head.out_features)


@contextmanager
def read_at_head(
    model: nn.Module, targets: torch.Tensor, temperatures: torch.Tensor | None, beside: str | None
) -> Iterator[list[torch.Tensor]]:
    """While it lasts, a forward pass of the causal LM that asks for the logits of as many places as
    there are targets leaves in the list a [places, 1 or 2] tensor: log-probs of the targets and what is
    asked for `beside` them (logits.BESIDE), of logits divided by `temperatures` [places]. Its output is of no use."""
    head, after = model.get_output_embeddings(), after_head(model)
    read: list[torch.Tensor] = []

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        if hidden.shape[1] != len(targets):
            raise ValueError(
                f"{type(model).__name__} asks its head for {hidden.shape[1]} places and not for the {len(targets)} of "
                "logits_to_keep"
            )
        return HeadRead.apply(hidden[0], head.weight, head.bias, targets, temperatures, after, beside)[None]

    head.forward = forward
    # DeepSpeed's hooks come first: a gradient has to pass them on its way back
    handle = head.register_forward_hook(lambda module, inputs, output: read.append(output[0]))
    try:
        yield read
    finally:
        handle.remove()
        del head.forward


class HeadRead(torch.autograd.Function):
    """[places, width] -> [places, 1 or 2] in float32 at least; the best token's log-prob is a constant of the gradient.

    With z the logits of a place, t its target, p = softmax(z) and A = sum of p log p, which is minus the entropy:

        d log p_t / dz = 1_t - p        d entropy / dz = -p (log p - A)
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, temperatures, after, beside):
        wide = torch.promote_types(hidden.dtype, torch.float32)
        total = hidden.new_full((len(hidden),), torch.finfo(wide).min, dtype=wide)  # log-sum-exp so far
        best, entropy = total.clone(), beside == "entropy"
        chosen, spread = torch.zeros_like(total), torch.zeros_like(total)  # of the target; A of what has been seen
        room = _room(hidden, weight)
        for words in _slices(hidden, weight):
            logits = _widened(_raw(hidden, weight, bias, words, room), temperatures, after)
            place, there = _within(targets, words)
            chosen = torch.where(there, logits.gather(1, place[:, None])[:, 0], chosen)
            highest = logits.amax(1)
            best = best.maximum(highest)
            logits -= highest[:, None]
            if entropy:
                odds = logits.exp()
                sums = odds.sum(1)
                own = torch.einsum("pw,pw->p", odds, logits) / sums - sums.log()
            else:
                sums = logits.exp_().sum(1)
            part = highest + sums.log()
            both = torch.logaddexp(total, part)
            if entropy:
                spread = (total - both).exp() * (spread + total - both) + (part - both).exp() * (own + part - both)
            total = both
        ctx.save_for_backward(hidden, weight, bias, targets, temperatures, total, spread)
        ctx.after, ctx.entropy = after, entropy
        second = {None: [], "entropy": [-spread], "best": [best - total]}[beside]
        return torch.stack([chosen - total, *second], 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        hidden, weight, bias, targets, temperatures, total, spread = ctx.saved_tensors
        gradient = gradient.to(total.dtype)
        of_target = gradient[:, :1]
        to_hidden = torch.zeros_like(hidden, dtype=total.dtype) if ctx.needs_input_grad[0] else None
        to_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        to_bias = torch.empty_like(bias) if bias is not None and ctx.needs_input_grad[2] else None
        room = _room(hidden, weight)
        for words in _slices(hidden, weight):
            raw = _raw(hidden, weight, bias, words, room)
            change = _widened(raw, temperatures, ctx.after).sub_(total[:, None])  # log p
            if ctx.entropy:
                odds = change.exp()
                change.sub_(spread[:, None]).mul_(gradient[:, 1:]).add_(of_target).mul_(odds).neg_()
            else:
                change.exp_().mul_(-of_target)
            place, there = _within(targets, words)
            change.scatter_add_(1, place[:, None], torch.where(there, of_target[:, 0], 0)[:, None])
            if temperatures is not None:
                change /= temperatures[:, None]
            if ctx.after is not None:
                with torch.enable_grad():
                    raw.requires_grad_()
                    (change,) = torch.autograd.grad(ctx.after(raw), raw, change.to(raw.dtype))
            change = change.to(hidden.dtype)
            if to_hidden is not None:
                if to_hidden.dtype == change.dtype:
                    to_hidden.addmm_(change, weight[words])
                else:
                    to_hidden += change @ weight[words]
            if to_weight is not None:
                torch.mm(change.T, hidden, out=to_weight[words])
            if to_bias is not None:
                to_bias[words] = change.sum(0)
        to_hidden = None if to_hidden is None else to_hidden.to(hidden.dtype)
        return to_hidden, to_weight, to_bias, None, None, None, None


def _slices(hidden: torch.Tensor, weight: torch.Tensor) -> Iterator[slice]:
    words = len(weight)
    step = words_at_once(len(hidden), words)
    return (slice(start, min(start + step, words)) for start in range(0, words, step))


def _room(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """For the logits of one slice after the other: memory that is asked for anew each time costs its first touch."""
    return hidden.new_empty(len(hidden) * words_at_once(len(hidden), len(weight)))


def _raw(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, words: slice, room: torch.Tensor
) -> torch.Tensor:
    """As the head itself gives them."""
    rows = weight[words].T
    logits = room[: len(hidden) * rows.shape[1]].view(len(hidden), -1)
    if bias is None:
        return torch.mm(hidden, rows, out=logits)
    return torch.addmm(bias[words], hidden, rows, out=logits)


def _widened(raw: torch.Tensor, temperatures: torch.Tensor | None, after: After | None) -> torch.Tensor:
    """The tempered logits, in float32 at least; in the memory of `raw` where it can be."""
    logits = raw if after is None else after(raw)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperatures is None else logits.div_(temperatures[:, None])


def _within(targets: torch.Tensor, words: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each target is in the slice, and whether it is there at all."""
    place, last = targets - words.start, words.stop - words.start - 1
    return place.clamp(0, last), (place >= 0) & (place <= last)
