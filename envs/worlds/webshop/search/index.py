"""Search by BM25, as the published shop asks Lucene for it through pyserini: k1 = .9, b = .4, the 50 best.

    score(q, d) = sum over the words of q of  count in q * idf * tf / (tf + k1 * (1 - b + b * length(d) / mean length))
    idf         = ln(1 + (N - n + .5) / (n + .5)),  n of N documents having the word

tf is how often d has the word. Lengths are those that Lucene keeps in one byte: exact up to 40 words, then the greatest
of a row of numbers in steps of an eighth (`kept_length`); their mean is of the exact ones. Equal scores, in single
precision, are in the order of the documents' names, as Anserini orders them. Documents without any of the words are not
found.

An index is a folder of arrays, which are read where they lie: processes share their pages in memory. A word is known by
64 bits of its digest, so that two words are one with a probability below 1e-6, even of all published products.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import numpy as np

from envs.worlds.webshop.search.words import terms_of

K1, B = 0.9, 0.4
HITS = 50
_ARRAYS = ("words", "starts", "documents", "counts", "lengths")
_EXACT = 24  # lengths below are kept as they are; those above as this and four leading bits of the rest


def kept_length(length: np.ndarray) -> np.ndarray:
    """What remains of a length in Lucene's one byte."""
    above = np.maximum(length - _EXACT, 0).astype(np.int64)
    shift = np.maximum(np.floor(np.log2(np.maximum(above, 1))).astype(np.int64) - 3, 0)
    return np.where(length < _EXACT, length, _EXACT + ((above >> shift) << shift))


def write_index(folder: Path, texts: Iterable[str]) -> None:
    """Of 1.2 million products it takes about 2 GB while it is made; it is some 700 MB then."""
    number_of: dict[str, int] = {}
    words, counts, different, lengths = array("I"), array("H"), array("I"), array("I")
    for text in texts:
        found = Counter(terms_of(text))
        for term, count in found.items():
            words.append(number_of.setdefault(term, len(number_of)))
            counts.append(min(count, 65535))
        different.append(len(found))
        lengths.append(found.total())
    keys = np.array([_key(term) for term in number_of], dtype=np.uint64)
    by_key = np.argsort(keys)
    place = np.empty(len(keys), dtype=np.uint32)
    place[by_key] = np.arange(len(keys), dtype=np.uint32)
    placed = place[np.frombuffer(words, dtype=np.uint32)] if len(words) else np.zeros(0, np.uint32)
    order = np.argsort(placed, kind="stable")
    documents = np.repeat(np.arange(len(different), dtype=np.int32), np.array(different, dtype=np.int64))
    found_in = np.bincount(placed, minlength=len(keys))
    arrays = {
        "words": keys[by_key],
        "starts": np.concatenate([[0], np.cumsum(found_in)]).astype(np.int64),
        "documents": documents[order],
        "counts": np.array(counts, dtype=np.uint16)[order],
        "lengths": np.array(lengths, dtype=np.int32),
    }
    for name in _ARRAYS:
        np.save(folder / f"{name}.npy", arrays[name])


class Index:
    def __init__(self, folder: Path, names: np.ndarray):
        """`names`: of the documents, by which equal ones are ordered."""
        self.names = names
        self.words, self.starts, self.documents, self.counts, lengths = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS
        )
        self.size = len(lengths)
        mean = float(lengths.sum(dtype=np.int64)) / max(1, np.count_nonzero(lengths))
        self.norms = (K1 * (1 - B + B * kept_length(np.asarray(lengths)) / max(mean, 1e-9))).astype(np.float32)

    def found(self, query: str, most: int = HITS) -> list[int]:
        """The numbers of the best documents, best first."""
        scores = self.scores(query)
        hits = np.flatnonzero(scores)
        if len(hits) > most:
            least = np.partition(scores[hits], len(hits) - most)[len(hits) - most]
            hits = hits[scores[hits] >= least]
        order = np.lexsort((self.names[hits], -scores[hits]))
        return hits[order][:most].tolist()

    def scores(self, query: str) -> np.ndarray:
        scores = np.zeros(self.size)
        for term, asked in Counter(terms_of(query)).items():
            documents, counts = self._having(term)
            if len(documents):
                idf = np.log(1 + (self.size - len(documents) + 0.5) / (len(documents) + 0.5))
                scores[documents] += asked * idf * (counts / (counts + self.norms[documents]))
        return scores.astype(np.float32)

    def _having(self, term: str) -> tuple[np.ndarray, np.ndarray]:
        key = np.uint64(_key(term))
        at = int(np.searchsorted(self.words, key))
        if at == len(self.words) or self.words[at] != key:
            return self.documents[:0], self.counts[:0]
        part = slice(int(self.starts[at]), int(self.starts[at + 1]))
        return self.documents[part], self.counts[part]


def _key(term: str) -> int:
    return int.from_bytes(blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "big")
