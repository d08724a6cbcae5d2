"""Some of many, evenly."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cluster.episodes.evenly import evenly


@given(st.integers(0, 200), st.integers(1, 200))
def test_every_part_of_the_order_is_as_well_seen_as_any_other(count, most):
    found = list(evenly(range(count), most))
    assert len(found) == min(count, most) and found == sorted(set(found))
    ends = [*found, count]
    gaps = {after - before for before, after in pairwise(ends)}
    assert not gaps or (ends[0] == 0 and max(gaps) - min(gaps) <= 1)
