"""How a large output is cut up, as plain numbers: what the output head does, and what a plan of memory counts.

The logits of all trained tokens at once would be tokens x vocabulary numbers: 10 GB in float32 for
16k tokens of a model of 151,936 words, and several copies of that. No more than `SLICE_LOGITS`
of them are ever held: the vocabulary is gone through in slices, all tokens at a time.
"""

from __future__ import annotations

SLICE_LOGITS = 2**24  # benchmarks/logits.py has the speed and the memory of others
FLOAT32 = 4  # bytes


def fits_at_once(places: int, vocabulary: int) -> bool:
    return places * vocabulary <= SLICE_LOGITS


def words_at_once(places: int, vocabulary: int) -> int:
    return min(vocabulary, max(1, SLICE_LOGITS // max(1, places)))


def head_bytes(places: int, vocabulary: int, width: int) -> int:
    """The most that reading log-probs off the output head holds for the time of a backward pass,
    beside weights, their gradients and the hidden states: the logits of a slice, their
    probabilities and what they are made of, and a gradient of the hidden states in float32."""
    return FLOAT32 * (4 * places * words_at_once(places, vocabulary) + places * width)
