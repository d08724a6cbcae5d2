"""What an update measures on its tokens, summed over micro-batches and ranks.

Consistency is of every trained token once, by the weights at the start of the update. The
gap compares the trainer's log-probs with the stored ones on tokens sampled by these very
weights: there both are the same function, and what is left is how engine and trainer differ.

    logprob_gap_mean, logprob_gap_max   |trainer - stored|
    mismatch_kl                         KL(engine || trainer), estimated by exp(d) - 1 - d
    entropy                             - mean log-prob: of the engine's samples
    masked_share                        tokens that a mask dropped
    reference_kl                        distance to the reference, estimated by k3

Of a likelihood, which does not ask who sampled, there are only `entropy` and `reference_kl`.

Progress is of the tokens of one optimiser step, by the weights that it starts from.

    update_kl                           mean of r - 1 - log r, r = pi / old
    clipped_share                       tokens that a clip gives no gradient
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from learners.loss.loss import PackLoss, Tokens
from learners.loss.ratios import kl_estimates, sampled_at, truncated
from learners.optimiser import half_precision
from learners.settings import LearnerSettings

# settings' default for full and half precision
GAP_WARN, GAP_STOP = (1e-3, 0.1), (0.1, 1.0)
CAP = 2.0  # of the weights that are measured, with a loss that has none of its own


class LogprobGapError(RuntimeError):
    """Trainer and engines do not compute the same policy."""


class Sums:
    """Named sums over tokens; `over_ranks` is a collective."""

    def __init__(self, device: torch.device, *names: str):
        self.names = names
        self.values = torch.zeros(len(names), dtype=torch.float64, device=device)

    def add(self, *values: torch.Tensor) -> None:
        self.values += torch.stack([value.detach().double() for value in values])

    def over_ranks(self) -> dict[str, float]:
        total = self.values.clone()
        dist.all_reduce(total)
        return dict(zip(self.names, total.tolist(), strict=True))


class Consistency:
    def __init__(self, device: torch.device):
        self.sums = Sums(
            device, "tokens", "logprob", "reference", "on_policy", "gap", "kl", "importance", "stale", "dropped"
        )
        self.largest = torch.zeros(1, dtype=torch.float64, device=device)

    def add(self, old: torch.Tensor, tokens: Tokens, settings: LearnerSettings) -> None:
        exact, nothing = old.double(), torch.zeros((), device=old.device)
        distance = nothing
        if tokens.reference is not None:
            distance = kl_estimates(exact, tokens.reference.double(), "k3").sum()
        of_sampler = self._of_sampler(old, tokens, settings) if settings.loss.asks_sampler else [nothing] * 6
        self.sums.add(torch.tensor(float(len(old)), device=old.device), exact.sum(), distance, *of_sampler)

    def _of_sampler(self, old: torch.Tensor, tokens: Tokens, settings: LearnerSettings) -> list[torch.Tensor]:
        cap = getattr(settings.loss, "importance_cap", CAP)
        kept, stale = settings.loss.kept_tokens(old, tokens), ~tokens.on_policy
        importance = truncated(old, sampled_at(old, tokens.sampler_logprobs, tokens.on_policy), cap)
        difference = (old.double() - tokens.sampler_logprobs)[tokens.on_policy]
        gap = difference.abs()
        if len(gap):
            self.largest = torch.maximum(self.largest, gap.max())
        return [
            tokens.on_policy.sum(),
            gap.sum(),
            kl_estimates(-difference, torch.zeros_like(difference), "k3").sum(),
            importance[stale].double().sum(),
            stale.sum(),
            (~kept).sum(),
        ]

    def over_ranks(self, settings: LearnerSettings) -> dict[str, float]:
        """The batch's figures; a collective."""
        sums = self.sums.over_ranks()
        largest = self.largest.clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        tokens, on_policy, stale = max(sums["tokens"], 1.0), sums["on_policy"], max(sums["stale"], 1.0)
        figures = {"entropy": -sums["logprob"] / tokens}
        if settings.loss.asks_sampler:
            if on_policy:  # else nothing was compared
                figures |= {
                    "logprob_gap_mean": sums["gap"] / on_policy,
                    "logprob_gap_max": float(largest),
                    "mismatch_kl": sums["kl"] / on_policy,
                }
            figures |= {
                "stale_share": sums["stale"] / tokens,
                "importance_mean": sums["importance"] / stale if sums["stale"] else 1.0,
            }
        if settings.loss.masks:
            figures["masked_share"] = sums["dropped"] / tokens
        if settings.loss.kl or settings.credit.penalty:
            figures["reference_kl"] = sums["reference"] / tokens
        return figures


def watch_gap(figures: dict[str, float], settings: LearnerSettings) -> dict[str, float]:
    """Whether the gap is to be warned of; LogprobGapError where it is too large to train on. A gap
    that is not a number is the business of the guard of the step."""
    if "logprob_gap_mean" not in figures:
        return {}
    half = half_precision(settings)
    warn, stop = settings.logprob_gap_warn or GAP_WARN[half], settings.logprob_gap_stop or GAP_STOP[half]
    mean, largest = figures["logprob_gap_mean"], figures["logprob_gap_max"]
    if mean > stop:
        raise LogprobGapError(
            f"log-probs of the trainer and of the engines differ by {mean:.2g} on average, {largest:.2g} at most, on "
            f"tokens of the same weights (learner.logprob_gap_stop={stop:g}): look at sync/parity_gap, "
            "which says whether the engines hold the weights, at learner.dtype and rollout.engine.dtype, which should "
            "be the same, and at learner.attention"
        )
    return {"logprob_gap_warned": float(mean > warn)}


class Progress:
    def __init__(self, device: torch.device):
        self.sums = Sums(device, "loss", "tokens", "kl", "clipped", "entropy", "in_games", "shared")

    def add(self, outcome: PackLoss, in_games: int, shared: int) -> None:
        """Of a pack: how many tokens its games have, and how many of them are computed with another game's."""
        logprobs = outcome.logprobs.double()
        nothing = torch.zeros((), device=logprobs.device)
        self.sums.add(
            outcome.loss,
            torch.tensor(float(len(logprobs)), device=logprobs.device),
            # r - 1 - log r with r = pi / old
            kl_estimates(outcome.old_logprobs.double(), logprobs, "k3").sum(),
            outcome.clipped.sum(),
            nothing if outcome.entropy is None else outcome.entropy.sum(),
            *torch.tensor([float(in_games), float(shared)], device=logprobs.device),
        )

    def over_ranks(self) -> dict[str, float]:
        sums = self.sums.over_ranks()
        tokens = max(sums["tokens"], 1.0)
        means = {name: sums[name] / tokens for name in ("kl", "clipped", "entropy")}
        return means | {name: sums[name] for name in ("loss", "in_games", "shared")}
