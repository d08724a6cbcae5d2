"""The policy-gradient loss, as a sum that does not know how the batch was cut up.

    loss = - scale * sum over trained tokens of  w * A * log pi(token)

`scale` is 1 / (number of tokens, turns or episodes in the WHOLE batch, over all ranks
and micro-batches), so the gradient is the same for every micro-batch size, packing and
number of ranks. With `episode` it is the policy gradient of the expected return.

w is 1 exactly on tokens sampled by the very weights being updated: engine and trainer
round differently, and an on-policy update must not depend on that. On tokens of older
weights w = min(pi / pi_behaviour, cap), a constant of the gradient (truncated importance
sampling, Espeholt et al. 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from learners.batch import Trajectory


def batch_scale(trajectories: Sequence[Trajectory], aggregation: str) -> float:
    """1 / how many tokens, turns or episodes (seats' games) the whole batch trains."""
    if aggregation == "token":
        count = sum(int(trajectory.turn_tokens.sum()) for trajectory in trajectories)
    elif aggregation == "turn":
        count = sum(int((trajectory.turn_tokens > 0).sum()) for trajectory in trajectories)
    else:
        count = len(trajectories)
    return 1.0 / max(count, 1)


def target_logprobs(logits: torch.Tensor, targets: torch.Tensor, temperature: float) -> torch.Tensor:
    """float32 log-probs of the tempered distribution: the one that was sampled from."""
    return -F.cross_entropy(logits.float() / temperature, targets, reduction="none")


def importance_weights(
    logprobs: torch.Tensor, behaviour: torch.Tensor, fresh: torch.Tensor, cap: float
) -> torch.Tensor:
    ratio = (logprobs.detach() - behaviour).clamp(max=math.log(cap)).exp()
    return torch.where(fresh, torch.ones_like(ratio), ratio)


def policy_loss(logprobs: torch.Tensor, advantages: torch.Tensor, weights: torch.Tensor, scale: float) -> torch.Tensor:
    return -scale * (weights * advantages * logprobs).sum()
