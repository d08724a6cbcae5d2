"""Sentence embeddings: unit vectors, one model run per distinct text, safe between threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from envs.text.embedding import Embedder, LocalEncoder, embed

TEXTS = ["is it alive?", "does it live?", "can you eat it?", "\ud800 broken \u00e9", ""]


def test_rows_are_unit_vectors_and_near_in_meaning():
    rows = embed(TEXTS)
    assert rows.shape == (len(TEXTS), 384) and rows.dtype == np.float32
    assert np.allclose((rows * rows).sum(axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > 0.6 > rows[0] @ rows[2]
    assert embed([]).shape == (0, 384)


class Counted:
    """The packaged model, and a list of what it was asked."""

    def __init__(self):
        self.local, self.asked = LocalEncoder(), []
        self.dimension = self.local.dimension

    def encode(self, texts):
        self.asked.append(sorted(texts))
        return self.local.encode(texts)

    def metrics(self):
        return {}


def test_the_cache_forgets_the_text_unused_for_longest_and_changes_nothing():
    counted = Counted()
    small = Embedder(lambda: counted, cached=3)
    first = small.embed(["a", "b", "b", "c"])
    assert counted.asked == [["a", "b", "c"]] and (first[1] == first[2]).all()
    small.embed(["a"])  # now "b" is the one unused for longest
    small.embed(["d"])
    assert counted.asked[1:] == [["d"]] and len(small.rows) == 3
    assert (small.embed(["c", "a"]) == first[[3, 0]]).all() and len(counted.asked) == 2
    assert np.allclose(small.embed(["b"]), first[1], atol=1e-6) and counted.asked[-1] == ["b"]
    assert small.metrics() == {"hit_rate": 3 / 8, "misses": 5.0, "cached": 3.0}


def test_more_texts_at_once_than_the_cache_holds_are_all_answered():
    texts = [f"number {number}" for number in range(7)]
    small = Embedder(LocalEncoder, cached=2)
    assert np.allclose(small.embed(texts), embed(texts), atol=1e-6) and small.metrics()["cached"] == 2


def test_threads_get_what_one_thread_gets_and_each_text_is_encoded_once():
    texts = [f"is it number {number}?" for number in range(40)]
    alone = embed(texts)
    counted = Counted()
    shared = Embedder(lambda: counted)
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda number: shared.embed([texts[number], texts[-1 - number]])[0], range(40)))
    assert np.allclose(np.stack(rows), alone, atol=1e-5)
    assert sorted(text for asked in counted.asked for text in asked) == sorted(texts)


def test_a_model_that_cannot_be_loaded_is_named_in_one_line():
    with pytest.raises(ValueError, match="embedding model '/nowhere/model' cannot be loaded: ") as refused:
        embed(["a"], "/nowhere/model")
    assert "\n" not in str(refused.value)
