"""The long run: its rule on made-up counts, and a short one."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.soak import KINDS, slope, soak, tables

AT = np.arange(0.0, 3600.0, 2.0)


@pytest.mark.parametrize(
    ("by_the_hour", "grows"),
    [(0.0, False), (50.0, True), (5.0, False), (-50.0, False)],  # of 1,000; less than a hundredth is let be
)
def test_what_grows_is_told_from_noise(by_the_hour, grows):
    noise = np.random.default_rng(3).normal(0.0, 20.0, len(AT))
    warm_up = np.where(AT < 500, -400.0, 0.0)  # is left out
    found = slope(AT, 1000.0 + by_the_hour * AT / 3600 + noise + warm_up)
    assert found["grows"] is grows and abs(found["slope"] - by_the_hour) < 3 * found["half"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_short_one_leaves_nothing_behind():
    found = soak(0.5, print)
    assert found["code"] == 130 and found["updates"] > 0 and not found["orphans"] and not found["left"]
    assert all(found["slopes"][f"{kind} memory"]["mean"] > 1 for kind in KINDS)
    assert found["slopes"]["/dev/shm"]["mean"] == 0, "what is shared there has no name"
    assert tables(found)
