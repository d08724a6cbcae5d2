"""What an update measures on its tokens, summed over micro-batches and ranks.

The gap compares the trainer's log-probs with the stored ones on tokens sampled by the
very weights being updated: there both are the same function, and what is left is how
engine and trainer differ.

    logprob_gap_mean, logprob_gap_max   |trainer - stored|
    mismatch_kl                         KL(engine || trainer), estimated by exp(d) - 1 - d
    entropy                             - mean log-prob: of the engine's samples
"""

from __future__ import annotations

import torch
import torch.distributed as dist

SUMS = ("loss", "tokens", "logprob", "fresh", "gap", "kl", "importance", "stale")


class Measures:
    def __init__(self, device: torch.device):
        self.sums = torch.zeros(len(SUMS), dtype=torch.float64, device=device)
        self.largest = torch.zeros(1, dtype=torch.float64, device=device)

    def add(
        self,
        loss: torch.Tensor,
        logprobs: torch.Tensor,
        behaviour: torch.Tensor,
        fresh: torch.Tensor,
        importance: torch.Tensor,
    ) -> None:
        logprobs = logprobs.detach().double()
        difference = (logprobs - behaviour)[fresh]
        gap = difference.abs()
        stale = ~fresh
        self.sums += torch.stack(
            [
                loss.detach().double(),
                torch.tensor(len(logprobs), dtype=torch.float64, device=logprobs.device),
                logprobs.sum(),
                fresh.sum().double(),
                gap.sum(),
                (difference.exp() - 1 - difference).sum(),
                importance[stale].double().sum(),
                stale.sum().double(),
            ]
        )
        if len(gap):
            self.largest = torch.maximum(self.largest, gap.max())

    def over_ranks(self) -> dict[str, float]:
        """The batch's figures; a collective."""
        dist.all_reduce(self.sums)
        dist.all_reduce(self.largest, op=dist.ReduceOp.MAX)
        sums = dict(zip(SUMS, self.sums.tolist(), strict=True))
        tokens, fresh, stale = max(sums["tokens"], 1.0), max(sums["fresh"], 1.0), max(sums["stale"], 1.0)
        return {
            "loss": sums["loss"],
            "entropy": -sums["logprob"] / tokens,
            "logprob_gap_mean": sums["gap"] / fresh,
            "logprob_gap_max": float(self.largest),
            "mismatch_kl": sums["kl"] / fresh,
            "stale_share": sums["stale"] / tokens,
            "importance_mean": sums["importance"] / stale if sums["stale"] else 1.0,
        }
