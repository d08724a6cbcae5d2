"""Captions as rows of numbers: their sentence embeddings, in 16-bit floats.

Each caption is embedded by itself, never in a batch whose other texts would change its last bits: a
row depends on the caption alone, whenever and wherever it is made. Rows of captions that were
annotated are kept, and saved with the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from reward_service.intentions.corpus import Embed


class Features:
    def __init__(self, embed: Embed):
        self._embed = embed
        self.rows: dict[str, np.ndarray] = {}  # of annotated captions

    def row(self, caption: str) -> np.ndarray:
        found = self.rows.get(caption)
        return self._embed([caption])[0].astype(np.float16) if found is None else found

    def of(self, captions: Iterable[str]) -> np.ndarray:
        return np.stack([self.row(caption) for caption in captions])

    def keep(self, rows: dict[str, np.ndarray], captions: Iterable[str]) -> None:
        """From now on the rows of these captions and no others."""
        known = self.rows | rows
        self.rows = {caption: known[caption] for caption in captions}

    def state(self) -> dict[str, Any] | None:
        if not self.rows:
            return None
        return {"captions": list(self.rows), "rows": np.stack(list(self.rows.values()))}

    def restore(self, state: dict[str, Any] | None) -> None:
        self.rows = dict(zip(state["captions"], np.asarray(state["rows"]), strict=True)) if state else {}
