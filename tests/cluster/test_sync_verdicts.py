"""What a sync is judged by: digests of bytes, receipts, and gaps between log-probs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from actors.transport.digest import digest
from actors.transport.receipt import Receipt
from cluster.run.parity import byte_faults, gap_between


def test_a_digest_stands_for_the_bytes_in_their_order():
    generator = torch.Generator().manual_seed(3)
    for dtype, count in ((torch.float32, 9000), (torch.bfloat16, 8191), (torch.uint8, 5), (torch.float32, 0)):
        values = torch.randn(count, generator=generator).mul(50).to(dtype)
        own = int(digest(values))
        assert own == int(digest(values.clone())) == int(digest(torch.stack([values, values], 1)[:, 0]))
        seen = {own}
        for place in range(0, count, 997):
            for bit in range(8 * values.element_size()):
                wrong = values.clone()
                wrong.view(torch.uint8)[place * values.element_size() + bit // 8] ^= 1 << bit % 8
                seen.add(int(digest(wrong)))
        bits = len(range(0, count, 997)) * 8 * values.element_size()
        assert len(seen) == 1 + bits, "every flipped bit gives another digest"
    table = torch.randn(70, 130, generator=generator)
    moved = {int(digest(table)), int(digest(table.t())), int(digest(table.flip(0))), int(digest(table.flip(1)))}
    assert len(moved | {int(digest(table.roll(one, 0))) for one in range(1, 70)}) == 4 + 69
    assert int(digest(torch.zeros(3))) != int(digest(torch.zeros(4)))
    assert int(digest(torch.arange(10_000))) == -151608381761915344, "the same in every process and version"


def test_a_receipt_of_another_update_is_no_proof():
    sent = {"a": 1, "b": 2}
    assert byte_faults(sent, {}, Receipt(3, dict(sent)), 3) == []
    (fault,) = byte_faults(sent, {}, Receipt(2, dict(sent)), 3)
    assert (fault.tensor, fault.what) == ("all tensors", "are those of version 2: the update was not finished")
    (fault,) = byte_faults(sent, {}, Receipt(3, sent | {"c": 5}), 3)
    assert fault.what == "arrived, but was not sent"


def test_a_gap_is_never_hidden_by_what_is_not_a_number_and_tells_old_from_new():
    rng = np.random.default_rng(1)
    old, new = [rng.normal(size=40)], [rng.normal(size=40)]
    for bad in (np.nan, np.inf, -np.inf):
        gap = gap_between(new, [np.where(np.arange(40) == 3, bad, new[0])], old)
        assert gap.fault(True, None) and gap.fault(False, None)
    assert gap_between(new, new, old).share == pytest.approx(1) and gap_between(new, old, old).share == pytest.approx(0)
    noise, near = 0.03 * rng.normal(size=40), [new[0] + 0.01 * rng.normal(size=40)]
    assert gap_between(new, [new[0] + noise], near).fault(True, None) == "", (
        "moved by less than rounding does: no verdict"
    )
    near = [new[0] + 0.05 * rng.normal(size=40)]
    stale = gap_between(new, [near[0] + noise / 3], near)
    assert stale.mean < 0.1 and "of the way from the old log-probs to the new" in stale.fault(True, None)
    still = [new[0] + np.where(np.arange(40) < 4, 1e-6, 0.0)]
    assert gap_between(new, still, still).fault(False, None) == "", "weights that stayed are scored a rounding apart"
    barely = [new[0] + np.where(np.arange(40) < 4, 5e-5, 0.0)]
    assert "0% of the way" in gap_between(new, barely, barely).fault(False, None)
    small = [new[0] / 10]
    assert gap_between(small, [small[0] + 3e-5]).largest == pytest.approx(3e-5)
    assert gap_between(new, [new[0] + 3e-5]).fault(False, None) == ""
    assert "0.0001" in gap_between(new, [new[0] + 3e-4]).fault(False, None)
    assert gap_between(new, [new[0] + 0.03 * rng.normal(size=40)]).fault(True, None) == ""


def test_rounding_grows_with_the_log_probs_and_is_no_fault():
    sharp = np.array([-0.5, -2.0, -60.0])
    assert gap_between([sharp], [sharp + [5e-5, -1e-4, 3e-3]]).fault(False, None) == ""
    for wrong in ([2e-4, 0, 0], [0, 3e-4, 0], [0, 0, 8e-3]):
        assert "learner.sync.tolerance=0.0001" in gap_between([sharp], [sharp + wrong]).fault(False, None)


def test_rounding_that_is_seldom_may_go_further_and_a_fault_is_seldom_alone():
    """Of a policy that was trained for long a few log-probs are rounded a thousand times as far as most."""
    sharp = np.linspace(-6.0, -0.1, 60)
    for place, off in ((3, 9e-4), (59, 9e-3)):
        gap = gap_between([sharp], [sharp + off * (np.arange(60) == place)])
        assert gap.fault(False, None) == "" and gap.largest > 1e-4 > gap.usual
    for wrong in (3e-4 * (np.arange(60) < 2), 0.02 * (np.arange(60) == 59)):
        assert "learner.sync.tolerance=0.0001" in gap_between([sharp], [sharp + wrong * 6]).fault(False, None)
    few = sharp[:19]
    assert gap_between([few], [few + 2e-3 * (np.arange(19) == 3)]).fault(False, None), "too few to call one seldom"
