"""Whether engines hold the trained weights, and compute with them what the trainer computes.

Bytes first: what the trainer sent against each engine's receipt, bit for bit in every type.
Then behaviour: log-probs of the same tokens by both sides. In float32 the two agree to 1e-4
token by token; of a log-prob below -1 to that share of it, for rounding grows with the logits, and
these grow while a policy is trained. Of a policy that was trained for long a few tokens are rounded
a thousand times as far as most (`benchmarks/rounding.py`), so one in a hundred may differ by a
hundred times as much. In half precision they honestly differ, so there the mean
difference is judged, as a share of how far the log-probs themselves are spread:

    gap = mean |engine - trainer| / mean |trainer - mean of trainer|

Its limit is wider where tokens are few, as the openings of games are: there one token weighs much,
and in a model of experts rounding may send it to another expert.

and whose log-probs the engine's are, those of the new weights or those of the last probe's: of
the way that the trainer's log-probs have gone since then, the engine's have gone the share

    share = <engine - old, trainer - old> / <trainer - old, trainer - old>

which is 1 for an engine that moved along and 0 for one that did not, give or take an error that
what is left over tells. It finds engines whose gap is within the limit because the weights moved
little. `benchmarks/parity.py` holds both against honest and broken engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from actors.transport.receipt import Fault, Receipt

LARGEST = 1e-4  # float32: of a log-prob, as a share of it where it is below -1
SELDOM, FURTHER = 100, 100.0  # one token in so many, and one at least, may differ so many times as much
ENOUGH = 20  # tokens, for one of them to be seldom
MEAN_SHARE = 0.1  # half precision: of `gap`
FEW = 64  # tokens; of less than these
SHARE_OF_FEW = 0.25
ROUNDING = 1e-5  # float32: two passes over the same weights may differ so far, root mean square
LEAST_SHARE = 0.5  # of the way; less has to be so many errors away from all of it
ERRORS = 6.0

Scores = Sequence[np.ndarray]  # log-probs of each sequence's tokens


def byte_faults(sent: dict[str, int], before: dict[str, int], receipt: Receipt, version: int) -> list[Fault]:
    """What of the digests sent is not on the receipt, and how it went wrong if that can be told.
    `before` are the digests of the last sync."""
    if receipt.version != version:
        return [Fault("all tensors", f"are those of version {receipt.version}: the update was not finished")]
    owner = {number: name for name, number in sent.items()}
    faults = []
    for name, number in sent.items():
        arrived = receipt.arrived.get(name)
        if arrived == number:
            continue
        if arrived is None:
            what = "did not arrive"
        elif arrived == before.get(name):
            what = "is stale: the values of the sync before arrived"
        elif arrived in owner:
            what = f"is swapped: the values of {owner[arrived]} arrived"
        else:
            what = "was changed on the way: other values arrived"
        faults.append(Fault(name, what))
    faults += [Fault(name, "arrived, but was not sent") for name in receipt.arrived if name not in sent]
    return faults + receipt.faults


@dataclass(frozen=True, slots=True)
class Gap:
    """Between one engine's log-probs and the trainer's."""

    largest: float  # of a token, as a share of its log-prob where that is below -1
    mean: float  # as a share of the spread of the trainer's
    tokens: int
    usual: float = np.inf  # the largest, the seldom ones left out
    share: float = 1.0  # of the way from the old log-probs to the new
    error: float = 0.0  # of the share, one standard deviation

    def fault(self, half: bool, tolerance: float | None) -> str:
        """What is wrong, or nothing."""
        limit = tolerance or (self.share_limit if half else LARGEST)
        if half and not self.mean <= limit:
            what = f"{self.mean:.3g} in mean log-prob, as a share of their spread"
        elif not half and not (self.usual <= limit and self.largest <= FURTHER * limit):
            what = f"{self.largest:.3g} in a log-prob, as a share of one below -1, and {self.usual:.3g} in others"
        else:
            what = ""
        if what:
            return f"differs from the trainer by {what} (learner.sync.tolerance={limit:.3g})"
        if self.share < LEAST_SHARE and 1 - self.share > ERRORS * self.error:
            return f"has gone {self.share:.0%} of the way from the old log-probs to the new ones"
        return ""

    @property
    def share_limit(self) -> float:
        """Of `mean`."""
        return MEAN_SHARE if self.tokens >= FEW else SHARE_OF_FEW


def gap_between(ours: Scores, theirs: Scores, old: Scores | None = None) -> Gap:
    """Infinite where one side is not a number. `old` are our log-probs of the same tokens by the
    weights of the last probe."""
    trainer, engine = flat(ours), flat(theirs)
    with np.errstate(invalid="ignore"):
        apart = np.abs(engine - trainer)
        spread = np.abs(trainer - trainer.mean()).mean()
    if not np.isfinite(apart).all() or not np.isfinite(spread):
        return Gap(np.inf, np.inf, len(trainer))
    shares = np.sort(apart / np.maximum(1.0, np.abs(trainer)))
    seldom = max(1, len(shares) // SELDOM) if len(shares) >= ENOUGH else 0
    largest, usual = float(shares[-1]), float(shares[-1 - seldom])
    mean = float(apart.mean() / max(spread, 1e-6))
    way = np.zeros(1) if old is None else trainer - flat(old)
    if np.square(way).mean() < ROUNDING**2:  # not a way: nobody can tell old weights from new ones by it
        return Gap(largest, mean, len(trainer), usual)
    gone = engine - flat(old)
    share = float(gone @ way / (way @ way))
    error = float(np.sqrt(np.square(gone - share * way).mean() / (way @ way)))
    return Gap(largest, mean, len(trainer), usual, share, error)


def flat(scores: Scores) -> np.ndarray:
    return np.concatenate([np.asarray(one, np.float64) for one in scores])
