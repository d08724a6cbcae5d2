"""Sentence embeddings: unit vectors, one model run per distinct text, safe between threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from envs.embedding import Embedder, embed

TEXTS = ["is it alive?", "does it live?", "can you eat it?", "\ud800 broken \u00e9", ""]


def test_rows_are_unit_vectors_and_near_in_meaning():
    rows = embed(TEXTS)
    assert rows.shape == (len(TEXTS), 384) and rows.dtype == np.float32
    assert np.allclose((rows * rows).sum(axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > 0.6 > rows[0] @ rows[2]
    assert embed([]).shape == (0, 384)


def test_the_cache_forgets_the_text_unused_for_longest_and_changes_nothing():
    small, runs = Embedder(cached=3), []
    encode = small.encoder.encode
    small.encoder.encode = lambda texts, **options: runs.append(list(texts)) or encode(texts, **options)
    first = small.embed(["a", "b", "b", "c"])
    assert sorted(runs.pop()) == ["a", "b", "c"] and (first[1] == first[2]).all()
    small.embed(["a"])  # now "b" is the one unused for longest
    small.embed(["d"])
    assert runs == [["d"]] and len(small.rows) == 3
    assert (small.embed(["c", "a"]) == first[[3, 0]]).all() and len(runs) == 1
    assert np.allclose(small.embed(["b"]), first[1], atol=1e-6) and runs[-1] == ["b"]


def test_threads_get_what_one_thread_gets():
    texts = [f"is it number {number}?" for number in range(40)]
    alone = Embedder().embed(texts)
    shared = Embedder()
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda number: shared.embed([texts[number], texts[-1 - number]])[0], range(40)))
    assert np.allclose(np.stack(rows), alone, atol=1e-5)


def test_a_model_that_cannot_be_loaded_is_named_in_one_line():
    with pytest.raises(ValueError, match="embedding model '/nowhere/model' cannot be loaded: ") as refused:
        embed(["a"], "/nowhere/model")
    assert "\n" not in str(refused.value)
