"""Imports that are shorter than their libraries make them.

transformers imports scikit-learn, and with it scipy's statistics, for assisted decoding, which nobody here uses: about
a fifth of what `python -X importtime -c "import learners.rank"` shows. Call `without_sklearn` before anything of
transformers that computes is imported. All else of transformers, in a user's own program too, finds scikit-learn as
before.

vLLM imports the whole of torch's compiler, to make it log less about vLLM's own operations: more than half of what
`python -X importtime -c "import learners.rank, learners.transport.sender"` shows for the sender. A process that runs
none of these operations imports vLLM `with without_inductor()`. It may compile what it likes later.

This module imports nothing of Parley, so every floor may import it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

LOWERING = "torch._inductor.lowering"


def without_sklearn() -> None:
    from transformers import utils

    there = utils.is_sklearn_available
    utils.is_sklearn_available = lambda: False
    try:
        import_module("transformers.generation.candidate_generator")  # it keeps what it found
    finally:
        utils.is_sklearn_available = there


@contextmanager
def without_inductor() -> Iterator[None]:
    """As if it could not be imported, which vLLM takes into account. Where it has been imported, it stays."""
    if LOWERING in sys.modules:
        yield
        return
    sys.modules[LOWERING] = None
    try:
        yield
    finally:
        del sys.modules[LOWERING]
