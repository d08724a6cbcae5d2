"""What games of a micro-batch begin with alike is computed once.

Games begin with the rules of their seat and with what it is shown first, so their sequences have an opening in
common, of which no token is trained. In the pack it stands once, in front of what goes on from it:

    three sequences     rules task-1 a b c    rules task-1 d e    rules task-2 f
    segments            rules | task-1 | a b c | d e | task-2 f
    shared              rules is seen by all that follows it, task-1 by `a b c` and `d e`

Sequences share whole blocks of tokens, each with the one before it, so they are to be put in the order of their
openings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BLOCK = 16  # tokens: fewer are not worth a call of a kernel
WORTH = 0.1  # of a batch's tokens: if fewer are in common, sequences stay in the order of their lengths


@dataclass(slots=True)
class Segments:
    """In the order in which they are laid end to end. A sequence is the segments that lead to its own one."""

    sequence: np.ndarray  # int64 [segments]: one that has these tokens
    begin: np.ndarray  # int64 [segments]: the place in it of the first of them
    end: np.ndarray  # int64 [segments]: and of the one behind the last
    until: np.ndarray  # int64 [segments]: the segment behind all that go on from this one
    own: np.ndarray  # int64 [sequences]: the last segment of each

    @property
    def lengths(self) -> np.ndarray:
        return self.end - self.begin


def common_blocks(openings: Sequence[np.ndarray]) -> np.ndarray:
    """int64 [sequences]: how many tokens each opening has in common with the one before it, in whole blocks."""
    found = np.zeros(len(openings), np.int64)
    for place, (before, own) in enumerate(zip(openings, openings[1:], strict=False), start=1):
        size = min(len(before), len(own))
        other = np.flatnonzero(before[:size] != own[:size])
        found[place] = (int(other[0]) if len(other) else size) // BLOCK * BLOCK
    return found


def segments(sizes: Sequence[int], common: np.ndarray) -> Segments:
    """Of sequences of these sizes: one for all that neighbours have in common, then their own ones."""
    sequence, begin, end, until, own = [], [], [], [], []
    waiting = [(0, len(sizes), 0)]  # sequences of which so many tokens are laid
    opened: list[tuple[int, int]] = []  # segments that others go on from, and the sequence behind the last of these
    while waiting:
        first, last, laid = waiting.pop()
        while opened and opened[-1][1] <= first:
            until[opened.pop()[0]] = len(sequence)
        alone = last - first == 1
        reach = sizes[first] if alone else int(common[first + 1 : last].min())
        if alone or reach > laid:
            if alone:
                own.append(len(sequence))
            else:
                opened.append((len(sequence), last))
            sequence.append(first)
            begin.append(laid)
            end.append(reach)
            until.append(len(sequence))  # of those that others go on from it is found later
        if not alone:
            cuts = [first, *(np.flatnonzero(common[first + 1 : last] == reach) + first + 1).tolist(), last]
            waiting += [(*each, reach) for each in zip(cuts[:-1], cuts[1:], strict=True)][::-1]
    for number, _ in opened:
        until[number] = len(sequence)
    return Segments(*(np.array(each, np.int64) for each in (sequence, begin, end, until, own)))
