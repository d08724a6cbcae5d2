"""The log-prob of a choice, from those of the tokens of all actions that were listed.

    score(a)   = sum of the log-probs of a's tokens / divisor of a
    log P(a)   = score(a) - log sum over the listed b of exp(score(b))

so the gradient reaches every listed token, chosen or not (learners/credit/twosome.py says how much).
"""

from __future__ import annotations

import torch

from learners.batch.choices import Listed


def decided(own: torch.Tensor, logprobs: torch.Tensor, listed: Listed) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The log-probs of a pack's predicted tokens, `own`, with those of P where a choice was made; and of each
    choice the entropy and the best action's log P. `logprobs`: of all listed tokens, at temperature 1."""
    action, choice, chosen, decision, divisors = (
        torch.from_numpy(array).to(own.device)
        for array in (listed.action, listed.choice, listed.chosen, listed.decision, listed.divisors)
    )
    scores = logprobs.new_zeros(len(divisors)).index_add(0, action, logprobs) / divisors
    none = scores.new_full((len(chosen),), -torch.inf)
    highest = none.scatter_reduce(0, choice, scores.detach(), "amax")
    shifted = scores - highest[choice]
    logp = shifted - scores.new_zeros(len(chosen)).index_add(0, choice, shifted.exp()).log()[choice]
    entropy = scores.new_zeros(len(chosen)).index_add(0, choice, -logp.exp() * logp)
    best = none.scatter_reduce(0, choice, logp.detach(), "amax")
    return own.index_copy(0, decision, logp[chosen]), {"entropy": entropy, "best": best}
