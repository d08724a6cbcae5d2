"""What ALFWorld calls the things of a game: `cabinet 2` is the cabinet whose id says kind and place in the room.

    cabinet_bar__minus_00_dot_35_bar__plus_01_dot_05    the kind is what stands before the first _bar_

Things of a kind are numbered against the order of their ids, so that the first one has the highest number; the basin of
a sink is a kind of its own. These are the numbers of ALFWorld's own transcripts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

MARK = "_bar_"


def kind_of(thing: str) -> str:
    kind = thing.partition(MARK)[0]
    return f"{kind}basin" if "basin" in thing else kind


def names(things: Iterable[str]) -> dict[str, str]:
    """Of all ids of a game, without those that are no things of the room: types, places, the agent."""
    ids = sorted({each for each in things if MARK in each})
    left, found = Counter(map(kind_of, ids)), {}
    for each in ids:
        kind = kind_of(each)
        found[each] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return found
