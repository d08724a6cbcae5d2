"""An encoder that asks an OpenAI-compatible server: POST {url}/embeddings.

    texts -> requests of `batch_texts` -> rows, put in order, checked, made unit vectors

A request has a time limit, and is tried again where that may help. An answer with another
number of rows, another dimension than before, a number that is not finite, or a row of zeros is
an error that says so and names the server; then there are no rows at all, never some.

    requests = answers + failures;   tries = requests + retries
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import httpx
import numpy as np

from envs.text.chat import RETRY_SECONDS, WORTH_RETRYING, EndpointError, headers_with_key
from envs.text.embedding import EmbeddingEndpointSettings

COUNTED = ("requests", "answers", "failures", "retries")
SHOWN = 200  # characters of what a server says is wrong


class EndpointEncoder:
    """`name` is the setting it was made from, as messages call it."""

    def __init__(self, name: str, settings: EmbeddingEndpointSettings):
        self.name, self.settings = name, settings
        self.dimension: int | None = None
        self.counts: Counter[str] = Counter()
        self.client = httpx.Client(
            headers=headers_with_key(name, settings.key_variable), timeout=settings.timeout_seconds
        )

    def encode(self, texts: list[str]) -> np.ndarray:
        size = self.settings.batch_texts
        return np.concatenate([self._asked(texts[start : start + size]) for start in range(0, len(texts), size)])

    def metrics(self) -> dict[str, float]:
        return {name: float(self.counts[name]) for name in COUNTED}

    def _asked(self, texts: list[str]) -> np.ndarray:
        settings = self.settings
        body = {
            "model": settings.model,
            "input": [text or " " for text in texts],  # servers refuse an empty text
            "encoding_format": "float",
            **settings.body,
        }
        self.counts["requests"] += 1
        for attempt in range(settings.retries + 1):
            if attempt:
                self.counts["retries"] += 1
                time.sleep(RETRY_SECONDS * 2 ** (attempt - 1))
            try:
                status, answer = self._post(body)
            except httpx.RequestError as error:
                failure = f"{type(error).__name__}: {error}"
                continue
            if status != 200:
                failure = f"HTTP {status}: {answer[:SHOWN].decode('utf-8', 'replace')}"
                if status in WORTH_RETRYING:
                    continue
                break
            try:
                rows = self._read(json.loads(answer), len(texts))
            except (KeyError, IndexError, TypeError, ValueError) as error:
                failure = f"not embeddings ({type(error).__name__}: {error})"
                break
            self.counts["answers"] += 1
            return rows
        self.counts["failures"] += 1
        raise EndpointError(f"{self.name} at {settings.url}: {' '.join(failure.split())}")

    def _post(self, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and content. The client's own limit is for each wait; this one is for all of them."""
        until = time.monotonic() + self.settings.timeout_seconds
        with self.client.stream("POST", f"{self.settings.url.rstrip('/')}/embeddings", json=body) as response:
            content = bytearray()
            for part in response.iter_bytes():
                content += part
                if time.monotonic() > until:
                    raise httpx.ReadTimeout(f"no whole answer in {self.settings.timeout_seconds:g} s")
            return response.status_code, bytes(content)

    def _read(self, answer: dict[str, Any], count: int) -> np.ndarray:
        """float32 unit rows, in the order of the texts."""
        data = answer["data"]
        if sorted(each["index"] for each in data) != list(range(count)):
            raise ValueError(f"{len(data)} rows for {count} texts, or not numbered from 0")
        rows = np.empty((count, len(data[0]["embedding"])), np.float64)
        for each in data:
            rows[each["index"]] = each["embedding"]
        if self.dimension not in (None, rows.shape[1]):
            raise ValueError(f"rows of {rows.shape[1]} numbers, earlier ones of {self.dimension}")
        length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        if not (np.isfinite(length) & (length > 0)).all():
            raise ValueError("a row is not finite, or all zeros")
        self.dimension = rows.shape[1]
        return (rows / length).astype(np.float32)
