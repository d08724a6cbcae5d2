"""transformers without scikit-learn.

transformers imports scikit-learn, and with it scipy's statistics, for assisted decoding, which nobody here uses: a
fifth of the CPU seconds in which a rank, an engine or the driver imports what it needs. Call this before anything of
transformers is imported.

This module imports nothing of Parley, so every floor may import it.
"""

from __future__ import annotations


def without_sklearn() -> None:
    import transformers.utils

    transformers.utils.is_sklearn_available = lambda: False
