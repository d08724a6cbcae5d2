"""Mirror descent: the log-prob goes as far as its advantage says, and no further (Tomar et al., ICLR 2022).

    1/2 (log (pi / old) - step A)^2 / step          old: the weights at the start of the update

Its first gradient is that of - A log pi, whoever sampled; it is gone where the log-prob has moved by step * A.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from learners.loss.loss import Loss, PolicyTokens

if TYPE_CHECKING:
    import torch


class MirrorDescent(Loss):
    asks_sampler = True  # to tell whether engines and trainer agree; the term looks at `old` alone

    step: float = Field(1.0, gt=0, description="how far one update may move a log-prob for each unit of advantage")

    def policy_term(self, tokens: PolicyTokens, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        missing = tokens.logprobs - tokens.old - self.step * tokens.advantages
        loss = scale / (2 * self.step) * (tokens.kept * missing.square()).sum()
        return loss, tokens.kept.bool().new_zeros(tokens.kept.shape)
