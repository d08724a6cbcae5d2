"""Ratios that no float holds: losses and gradients stay finite, and ordinary ones do not change by a bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from learners.credit.vtrace import truncated_weights
from learners.loss.loss import Tokens
from learners.loss.ratios import FAR, kl_estimates
from learners.settings import LearnerSettings

KINDS = ["policy_gradient", "ppo", "decoupled"]
FLOATS = [torch.float32, torch.float64]


def gradient_at(gap: float, advantage: float, old: bool = False, **loss) -> tuple[float, float]:
    """Loss and its gradient by the log-prob of one token, `gap` above that of the start, or of who sampled it."""
    logprobs = torch.tensor([-1.0], requires_grad=True)
    away = torch.tensor([-1.0 - gap])
    tokens = Tokens(
        torch.tensor([advantage]),
        away,
        torch.tensor([not old]),
        torch.tensor([1]),
        logprobs.detach() if old else away,
        away,
    )
    found = LearnerSettings(loss=loss).loss.of_pack(logprobs, torch.zeros(1), tokens, 1.0).loss
    found.backward()
    return found.item(), logprobs.grad.item()


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("gap", [99.0, -99.0, 1e4, -1e4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_ratio_that_no_float_holds_has_a_finite_loss(kind, gap, old):
    for advantage in (1.0, -1.0, 0.0):
        loss, gradient = gradient_at(gap, advantage, old, kind=kind, kl=0.1)
        assert math.isfinite(loss) and math.isfinite(gradient)


def test_the_clipped_gradient_far_out_is_0():
    assert gradient_at(99.0, 1.0, kind="ppo")[1] == 0
    assert gradient_at(99.0, 1.0, kind="ppo")[0] == pytest.approx(-1.2)
    assert gradient_at(99.0, -1.0, kind="ppo", dual_clip=3.0) == (3.0, 0.0)
    assert gradient_at(-99.0, -1.0, kind="decoupled") == (pytest.approx(0.8), 0.0)
    assert gradient_at(99.0, 1.0, old=True)[1] == -2.0, "the truncated weight"


def test_k3_is_bounded():
    logprobs = torch.tensor([-99.0, -FAR, 0.0, 99.0], requires_grad=True)
    found = kl_estimates(logprobs, torch.zeros(4), "k3")
    most = math.expm1(FAR) - FAR
    assert found.tolist() == pytest.approx([most, most, 0.0, math.expm1(-FAR) + FAR])
    found.sum().backward()
    assert logprobs.grad[[0, 2, 3]].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_mask_drops_leaves_no_trace_whatever_its_numbers_are(kind, poison):
    settings = LearnerSettings(loss={"kind": kind, "token_mask": [0.5, 2.0], "kl": 0.1, "entropy": 0.1})
    found = []
    for last in (-1.0, poison):
        logprobs = torch.tensor([-1.0, -2.0, last], requires_grad=True)
        entropy = torch.tensor([1.0, 2.0, last], requires_grad=True)
        advantages = torch.tensor([1.0, -1.0, last])
        start, sampler_logprobs = torch.tensor([-1.1, -2.1, -1.0]), torch.tensor([-1.2, -1.9, -9.0])
        reference = torch.tensor([-1.0, -2.2, last])
        on_policy = torch.tensor([True, False, False])
        tokens = Tokens(advantages, sampler_logprobs, on_policy, torch.tensor([3]), start, reference)
        outcome = settings.loss.of_pack(logprobs, entropy, tokens, 0.5)
        outcome.loss.backward()
        found.append((outcome.loss, logprobs.grad, entropy.grad))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert found[0][1].tolist()[2] == 0 and torch.isfinite(found[0][1]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_is_none_is_found_and_not_clamped_away(kind):
    assert math.isnan(gradient_at(math.nan, 1.0, old=True, kind=kind)[0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_ratios_give_the_bits_of_the_bare_formula(kind, dtype):
    rng = np.random.default_rng(5)
    start, gap, advantages, off = (torch.from_numpy(each).to(dtype) for each in rng.normal(-3, 2, (4, 500)))
    sampler_logprobs, on_policy = start + off, torch.from_numpy(rng.random(500) < 0.5)
    logprobs = (start + gap).requires_grad_()
    tokens = Tokens(advantages, sampler_logprobs, on_policy, torch.tensor([500]), start, None)
    LearnerSettings(loss={"kind": kind}).loss.of_pack(logprobs, None, tokens, 0.25).loss.backward()

    bare = logprobs.detach().clone().requires_grad_()
    sampled = torch.where(on_policy, start, sampler_logprobs)
    if kind == "policy_gradient":
        terms = (bare.detach() - sampled).clamp(max=math.log(2.0)).exp() * advantages * bare
    else:
        ratios = (bare - (sampled if kind == "ppo" else start)).exp()
        terms = torch.minimum(ratios * advantages, ratios.clamp(0.8, 1.2) * advantages)
        if kind == "decoupled":
            terms = (start - sampled).clamp(max=math.log(2.0)).exp() * terms
    (-0.25 * terms.sum()).backward()
    assert torch.equal(logprobs.grad, bare.grad)


def test_ppo_does_not_push_down_again_what_an_update_before_has_pushed_down():
    """An old token that the present weights say less than those that sampled it: log r = -.5. Clipped against
    the start of the update it would be pushed down by every update that sees it."""
    for kind, gradient in (("ppo", 0.0), ("decoupled", math.exp(-0.5))):
        logprobs = torch.tensor([-1.5], requires_grad=True)
        tokens = Tokens(
            -torch.ones(1), torch.tensor([-1.0]), torch.tensor([False]), torch.tensor([1]), torch.tensor([-1.5]), None
        )
        LearnerSettings(loss={"kind": kind}).loss.of_pack(logprobs, None, tokens, 1.0).loss.backward()
        assert logprobs.grad.item() == pytest.approx(gradient)


@pytest.mark.parametrize("kind", KINDS)
def test_fresh_tokens_are_corrected_where_that_is_asked_for(kind):
    """The engine sampled at .6 of what the trainer says: a weight, or a ratio, of 1 / .6."""
    found = []
    for correct in (False, True):
        logprobs = torch.tensor([-1.0], requires_grad=True)
        stored = torch.tensor([-1.0 + math.log(0.6)])
        tokens = Tokens(-torch.ones(1), stored, torch.tensor([True]), torch.tensor([1]), None, None)
        loss = {"kind": kind, "correct_on_policy": correct}
        LearnerSettings(loss=loss).loss.of_pack(logprobs, None, tokens, 1.0).loss.backward()
        found.append(logprobs.grad.item())
    assert found == pytest.approx([1.0, 1 / 0.6])


def test_masks_see_fresh_tokens_where_they_are_corrected():
    stored, start = torch.tensor([-1.0, -3.0]), torch.tensor([-1.0, -1.0])
    tokens = Tokens(torch.ones(2), stored, torch.tensor([True, True]), torch.tensor([2]), start, None)
    for correct, gradients in ((False, [-1.0, -1.0]), (True, [-1.0, 0.0])):
        logprobs = start.clone().requires_grad_()
        settings = LearnerSettings(loss={"correct_on_policy": correct, "token_mask": [0.5, 2.0]})
        settings.loss.of_pack(logprobs, None, tokens, 1.0).loss.backward()
        assert logprobs.grad.tolist() == gradients


def test_weights_of_arrays_are_finite_too():
    far = np.array([-1e4, -99.0, 0.0, 99.0, 1e4])
    assert truncated_weights(far, 2.0).tolist() == pytest.approx([0, 0, 1, 2, 2], abs=1e-30)
    assert np.isfinite(truncated_weights(far, math.inf)).all()
