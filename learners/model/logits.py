"""What is read off logits, where they are there whole."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def target_logprobs(logits: torch.Tensor, targets: torch.Tensor, temperature: float) -> torch.Tensor:
    """Log-probs of the tempered distribution, the one that was sampled from; in float32 at least."""
    return -F.cross_entropy(_tempered(logits, temperature), targets, reduction="none")


def entropies(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Of the whole tempered distribution at each place."""
    logprobs = _tempered(logits, temperature).log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def best_logprobs(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Of the likeliest token at each place."""
    return _tempered(logits, temperature).log_softmax(-1).amax(-1)


BESIDE = {"entropy": entropies, "best": best_logprobs}  # what may be read beside the targets' log-probs


def _tempered(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperature == 1 else logits / temperature
