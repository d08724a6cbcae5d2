"""The norms and rotations of a Qwen3, each as one step whose gradient is written by hand.

transformers writes them as five to ten operations, and autograd goes back through every one. On a CPU each is
a pass over all tokens, and with a model as small as the embedded policy they take longer than its matrices.
Here the values are the same bit for bit, and the gradients but for rounding.
"""

from __future__ import annotations

from types import FunctionType, MethodType

import torch
from torch.autograd.function import once_differentiable
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RMSNorm, apply_rotary_pos_emb


def take_over(model: torch.nn.Module) -> None:
    """From here on this model, of float32, works with what is here; others of its class go on as they were."""
    rotating = _with(Qwen3Attention.forward, **{apply_rotary_pos_emb.__name__: rotated})
    for module in model.modules():
        if type(module) is Qwen3RMSNorm:
            module.forward = MethodType(normed, module)
        elif type(module) is Qwen3Attention:
            module.forward = MethodType(rotating, module)


def _with(function: FunctionType, **names: object) -> FunctionType:
    """The same function, to which these global names mean something else."""
    known = function.__globals__ | names
    changed = FunctionType(function.__code__, known, function.__name__, function.__defaults__, function.__closure__)
    changed.__kwdefaults__ = function.__kwdefaults__
    return changed


def normed(norm: Qwen3RMSNorm, hidden: torch.Tensor) -> torch.Tensor:
    return Norm.apply(hidden, norm.weight, norm.variance_epsilon)


def rotated(
    query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return Rotation.apply(query, cos, sin), Rotation.apply(key, cos, sin)


class Norm(torch.autograd.Function):
    """y = w h with h = x r and r = 1 / sqrt(mean x^2 + eps), of rows x of n numbers:

    dL/dw = sum over rows of g h        dL/dx = r (g w - h (g h . w) / n)
    """

    @staticmethod
    def forward(ctx, hidden, weight, epsilon):
        scale = torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + epsilon)
        unit = hidden * scale
        ctx.save_for_backward(unit, scale, weight)
        return weight * unit

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        unit, scale, weight = ctx.saved_tensors
        width = len(weight)
        product = (gradient * unit).reshape(-1, width)
        along = (product @ weight).view(scale.shape) / width
        to_hidden = (gradient * weight).addcmul_(unit, along, value=-1).mul_(scale)
        return to_hidden, product.sum(0), None


class Rotation(torch.autograd.Function):
    """Of each pair of numbers, which stand half a row apart, by its angle; of a gradient back by it."""

    @staticmethod
    def forward(ctx, rows, cos, sin):
        ctx.save_for_backward(cos, sin)
        return _turned(rows, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        cos, sin = ctx.saved_tensors
        return _turned(gradient, cos, -sin), None, None


def _turned(rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    turned = rows * cos
    (first, second), (one, other), (of_first, of_second) = (each.chunk(2, -1) for each in (turned, rows, sin))
    first.sub_(other * of_first)
    second.add_(one * of_second)
    return turned
