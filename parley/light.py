"""transformers without scikit-learn.

transformers imports scikit-learn, and with it scipy's statistics, for assisted decoding, which nobody here uses: about
a fifth of what `python -X importtime -c "import learners.rank"` shows. Call this before anything of transformers that
computes is imported. All else of transformers, in a user's own program too, finds scikit-learn as before.

This module imports nothing of Parley, so every floor may import it.
"""

from __future__ import annotations

from importlib import import_module


def without_sklearn() -> None:
    from transformers import utils

    there = utils.is_sklearn_available
    utils.is_sklearn_available = lambda: False
    try:
        import_module("transformers.generation.candidate_generator")  # it keeps what it found
    finally:
        utils.is_sklearn_available = there
